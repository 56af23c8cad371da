//! A project's files, and their analysis from end to end.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::analysis::{Analysis, Link, Problem};
use crate::condition::{Configuration, Presence};
use crate::container::ContainerFactory;
use crate::index::{Base, ClassId, File, Ty, World, site};
use crate::listener::{Listener, ListenerKind};
use crate::machine::{Machine, ObjId, Val};
use crate::mongo::client::ClientKind;
use crate::scan::{self, Token, Tokens};
use crate::span::{Lines, Range, Site};
use crate::tree::{Body, ClassKind, Expr, ExprKind, Method, Tree};

/// A source file.
#[derive(Debug, Clone)]
pub struct SourceFile<'t> {
    /// Its path; `.kt` and `.kts` are Kotlin, everything else is read as Java.
    pub path: Cow<'t, str>,
    /// Its text.
    pub text: Cow<'t, str>,
}

/// A larger file is not read: it is generated code.
const FILE_BYTES_MAX: usize = 1024 * 1024;
/// Files beyond this number are not read.
const FILES_MAX: usize = 50_000;
/// The stack of the threads that parse and analyse: both recurse, up to a limit.
const STACK_BYTES: usize = 128 * 1024 * 1024;
/// How many threads parse.
const THREADS_MAX: usize = 8;

/// The files of one or several modules, looked over and in part parsed.
pub struct Project<'a> {
    files: Vec<File<'a>>,
    problems: Vec<(u32, String)>,
}

impl<'a> Project<'a> {
    /// Looks the files over and parses those that can matter. Never fails: what cannot be read becomes a problem of the
    /// analysis.
    pub fn parse(files: &'a [SourceFile<'a>]) -> Self {
        let mut problems = Vec::new();
        let kept = &files[..files.len().min(FILES_MAX)];
        if kept.len() < files.len() {
            problems.push((0, format!("only the first {FILES_MAX} files are read")));
        }
        let mut found = in_parallel(kept, |file| {
            let kotlin = file.path.ends_with(".kt") || file.path.ends_with(".kts");
            let too_large = file.text.len() > FILE_BYTES_MAX;
            let text = if too_large { "" } else { &*file.text };
            File { path: Arc::from(&*file.path), text, kotlin, scan: scan::scan(text, kotlin), tree: None }
        });
        for (at, file) in (0_u32..).zip(kept) {
            if file.text.len() > FILE_BYTES_MAX {
                let size = file.text.len() / 1024;
                problems.push((
                    at,
                    format!("not read: {size} KiB is more than the limit of {} KiB", FILE_BYTES_MAX / 1024),
                ));
            }
        }
        mark_meta_listeners(&mut found);
        let mut project = Self { files: found, problems };
        project.parse_ahead();
        project
    }

    /// Parses, in parallel, what analysis will most likely ask for: the files it starts from and what those name.
    fn parse_ahead(&mut self) {
        let mut by_name = Declared::new();
        let mut by_head: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, file) in self.files.iter().enumerate() {
            for name in file.scan.declares.iter().chain(&file.scan.top_level) {
                by_name.entry(name).or_default().entry(&file.scan.package).or_default().push(at);
            }
            for name in &file.scan.heads {
                by_head.entry(name).or_default().push(at);
            }
        }
        let mut seen: HashSet<usize> = HashSet::new();
        let mut wave: Vec<usize> = Vec::new();
        for (at, file) in self.files.iter().enumerate() {
            if (file.scan.seed || file.scan.beans) && seen.insert(at) {
                wave.push(at);
            }
        }
        let mut trees: Vec<(usize, Tree<'a>)> = Vec::new();
        let mut first = true;
        while !wave.is_empty() {
            let files = &self.files;
            let parsed = in_parallel(&wave, |at| files[*at].read());
            let mut next: BTreeSet<usize> = BTreeSet::new();
            for at in &wave {
                // Configuration is full of names that no listener leads to: it is not gone on from.
                let file = &self.files[*at];
                if first && !file.scan.seed {
                    continue;
                }
                take_named(file, &mut by_name, &mut next);
                // What implements an interface that this file declares.
                for name in &file.scan.declares {
                    next.extend(by_head.get_mut(name).map(std::mem::take).unwrap_or_default());
                }
            }
            trees.extend(wave.iter().copied().zip(parsed));
            wave = next.into_iter().filter(|at| seen.insert(*at)).collect();
            first = false;
        }
        drop((by_name, by_head));
        for (at, tree) in trees {
            self.files[at].tree = Some(tree);
        }
    }

    /// How many of the files were parsed so far.
    pub fn parsed_files(&self) -> usize {
        self.files.iter().filter(|file| file.tree.is_some()).count()
    }

    /// Analyses the project. Conditions on beans are not looked at: all of them are taken as there.
    pub fn analyze(&self) -> Analysis {
        self.analyze_with(None)
    }

    /// Analyses the project with this configuration: beans whose `@Profile` or `@ConditionalOnProperty` does not hold are left
    /// out; a condition that cannot be told is a problem of the analysis.
    pub fn analyze_given(&self, configuration: &dyn Configuration) -> Analysis {
        self.analyze_with(Some(configuration))
    }

    fn analyze_with(&self, configuration: Option<&dyn Configuration>) -> Analysis {
        let run = || {
            let world = World::new(&self.files, configuration);
            analyze(&world)
        };
        // The analysis recurses with the sources, so it gets a stack of its own.
        let mut analysis = std::thread::scope(|threads| {
            let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
            match builder.spawn_scoped(threads, run) {
                Ok(thread) => match thread.join() {
                    Ok(result) => result,
                    Err(panic) => std::panic::resume_unwind(panic),
                },
                Err(_) => run(),
            }
        });
        for (at, message) in &self.problems {
            if let Some(file) = self.files.get(*at as usize) {
                let span = Lines::new(file.text).span(&file.path, file.text, Range::default());
                analysis.problems.push(Problem { message: message.clone(), span });
            }
        }
        analysis
    }
}

/// Files that use an annotation of the project that is a `@KafkaListener` itself are starting points too.
fn mark_meta_listeners(files: &mut [File<'_>]) {
    let names: Vec<String> = files
        .iter()
        .filter(|file| file.scan.meta_listener)
        .flat_map(|file| file.scan.declares.iter().map(|name| format!("@{name}")))
        .collect();
    if names.is_empty() {
        return;
    }
    for file in files.iter_mut() {
        if !file.scan.seed && names.iter().any(|name| file.text.contains(name.as_str())) {
            file.scan.seed = true;
        }
    }
}

/// Declarations by name, and by the package of their file.
type Declared<'s> = HashMap<&'s str, HashMap<&'s str, Vec<usize>>>;

/// The names of other files' declarations in a text.
fn mentioned<'t>(text: &'t str, declared: &Declared<'_>) -> HashSet<&'t str> {
    let words = Tokens::new(text).filter_map(|token| match token {
        Token::Word(word) if declared.contains_key(word) => Some(word),
        _ => None,
    });
    words.collect()
}

/// Takes the files whose declarations a file can mean by plain names: those of its package, and those that an import fits.
fn take_named<'t>(from: &'t File<'t>, declared: &mut Declared<'t>, into: &mut BTreeSet<usize>) {
    // Each import as a package and what stands behind it, for all places where the package may end.
    let mut imports: Vec<(&str, &str)> = Vec::new();
    for (at, _) in from.text.match_indices("import") {
        let line = from.text[at..].lines().next().unwrap_or_default();
        let path = line.trim_start_matches("import").trim().trim_start_matches("static").trim();
        imports.extend(path.match_indices('.').map(|(dot, _)| (&path[..dot], &path[dot + 1..])));
    }
    let own = from.scan.package.as_str();
    for word in mentioned(from.text, declared) {
        let Some(by_package) = declared.get_mut(word) else { continue };
        into.extend(by_package.get_mut(own).map(std::mem::take).unwrap_or_default());
        for (package, rest) in &imports {
            if *package != own
                && (rest.starts_with('*') || rest.starts_with(word))
                && let Some(files) = by_package.get_mut(package)
            {
                into.extend(std::mem::take(files));
            }
        }
    }
}

/// Does the same for each item, on a few threads; results in the items' order.
fn in_parallel<'t, T: Sync, R: Send>(items: &'t [T], work: impl Fn(&'t T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return done };
            done.push((at, work(item)));
        }
    };
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let spawn = |_| std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, run);
        let workers: Vec<_> = (0..threads.min(items.len())).map(spawn).collect();
        let mut results = Vec::with_capacity(items.len());
        for worker in workers.into_iter().flatten() {
            match worker.join() {
                Ok(done) => results.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    });
    if results.len() < items.len() {
        // No thread could be had.
        results.extend(run());
    }
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

fn analyze<'s>(world: &'s World<'s>) -> Analysis {
    let mut machine = Machine::new(world);
    let seeds: Vec<u32> = (0_u32..).zip(world.files).filter(|(_, file)| file.scan.seed).map(|(at, _)| at).collect();
    run_beans(&mut machine, &seeds);
    let mut listeners = Vec::new();
    for file in &seeds {
        for class in world.classes_of(*file) {
            if !world.presence(class).is_absent() {
                listeners.extend(machine.listeners_of(class));
            }
        }
    }
    listeners.extend(bindings(&mut machine));
    run_the_rest(&mut machine, &seeds);
    let mut analysis = read_objects(&mut machine, &seeds);
    analysis.listeners = listeners;
    analysis.listeners.extend(container_listeners(&mut machine));
    link(&mut analysis);
    analysis.retries = std::mem::take(&mut machine.retries);
    analysis.problems.extend(unknown_conditions(&machine, &seeds));
    for (at, what) in machine.limits.clone() {
        analysis.problems.push(Problem { message: what.to_owned(), span: machine.span(at) });
    }
    for (at, _) in (0_u32..).zip(world.files) {
        for (range, message) in world.problems(at) {
            let span = world.span(site(at, *range));
            analysis.problems.push(Problem { message: message.clone(), span });
        }
    }
    analysis
}

/// Conditions on beans and listeners of which nobody knows whether they hold.
fn unknown_conditions(machine: &Machine<'_>, seeds: &[u32]) -> Vec<Problem> {
    let world = machine.world;
    let of_beans = world.beans().iter().filter(|bean| seeds.contains(&world.info(bean.class).file));
    let of_beans = of_beans.map(|bean| world.presence_of_bean(bean.class, bean.method));
    let of_classes = seeds.iter().flat_map(|file| world.classes_of(*file)).map(|class| world.presence(class));
    let mut problems: Vec<Problem> = Vec::new();
    for presence in of_classes.chain(of_beans) {
        if let Presence::Unknown { on, at } = presence {
            let problem = Problem { message: may_be_absent(&on), span: machine.span(at) };
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
    }
    problems
}

/// Why something may not be there.
fn may_be_absent(on: &str) -> String {
    format!("whether it is there depends on {on}, which is not known; it is taken as there")
}

/// Makes the beans of the files that analysis starts from.
fn run_beans<'s>(machine: &mut Machine<'s>, seeds: &[u32]) {
    for bean in machine.world.beans() {
        if seeds.contains(&machine.world.info(bean.class).file) {
            machine.bean_value(bean.class, bean.method);
        }
    }
    // Error handlers and the like that are components.
    let roots = [
        "DefaultErrorHandler",
        "CommonErrorHandler",
        "CommonDelegatingErrorHandler",
        "SeekToCurrentErrorHandler",
        "ContainerAwareErrorHandler",
        "ErrorHandler",
        "BatchErrorHandler",
        "ContainerAwareBatchErrorHandler",
        "DefaultAfterRollbackProcessor",
        "AfterRollbackProcessor",
    ];
    for root in roots {
        for class in machine.world.implementers(root) {
            let own = machine.world.class(class);
            let component = own.annotations.iter().any(|it| matches!(it.simple(), "Component" | "Service"));
            if component && own.kind == ClassKind::Class && !own.is_abstract {
                machine.bean_object(class);
            }
        }
    }
}

/// Runs methods and fields that set something up and that nothing ran so far: helpers, static factories.
fn run_the_rest(machine: &mut Machine<'_>, seeds: &[u32]) {
    let world = machine.world;
    for file in seeds {
        for class in world.classes_of(*file) {
            let info = world.class(class);
            if matches!(info.kind, ClassKind::Interface | ClassKind::Annotation) || world.presence(class).is_absent() {
                continue;
            }
            for method in &info.methods {
                let Some(body) = &method.body else { continue };
                if !machine.ran.contains(&std::ptr::from_ref(method))
                    && may_make_something(world, *file, body)
                    && makes_something(world.body(*file, body), 0)
                    && !world.presence_of_bean(class, method).is_absent()
                {
                    run_alone(machine, class, method);
                }
            }
            for field in &info.fields {
                if field.value.as_ref().is_some_and(|value| makes_something(value, 0)) {
                    let at = site(*file, field.at);
                    if field.is_static {
                        machine.entry(|machine| machine.declared_static(class, field.name, at));
                    } else {
                        let object = machine.bean_object(class);
                        machine.entry(|machine| machine.get(&Val::Obj(object), field.name, at));
                    }
                }
            }
        }
        for function in &world.tree(*file).functions {
            if let Some(body) = &function.body
                && !machine.ran.contains(&std::ptr::from_ref(function))
                && makes_something(world.body(*file, body), 0)
            {
                machine.entry(|machine| {
                    machine.run_function(*file, function, None, Vec::new(), site(*file, function.name_at))
                });
            }
        }
    }
}

fn run_alone<'s>(machine: &mut Machine<'s>, class: ClassId, method: &'s Method<'s>) {
    let file = machine.world.info(class).file;
    let this = if method.is_static { None } else { Some(Val::Obj(machine.bean_object(class))) };
    machine.entry(|machine| machine.run_method(class, method, this, Vec::new(), site(file, method.name_at), false));
}

/// Whether the analysis reports what such a class makes.
fn is_reported(name: &str) -> bool {
    crate::error_handler::handler_kind(name).is_some()
        || matches!(
            name,
            "ConcurrentKafkaListenerContainerFactory"
                | "ConcurrentMessageListenerContainer"
                | "KafkaMessageListenerContainer"
                | "DefaultKafkaConsumerFactory"
                | "MongoClientSettings"
                | "MongoClients"
                | "MongoClient"
                | "RetryTopicConfigurationBuilder"
        )
}

/// Whether the text of a body that was not read names something that the analysis reports.
fn may_make_something(world: &World<'_>, file: u32, body: &Body<'_>) -> bool {
    let Body::Left(left) = body else { return true };
    let text = world.text(site(file, left.at));
    let mut tokens = if world.file(file).kotlin { Tokens::new(text) } else { Tokens::java(text) };
    tokens.any(|token| matches!(token, Token::Word(name) if is_reported(name)))
}

/// Whether code makes something that the analysis reports.
fn makes_something(expr: &Expr<'_>, depth: u32) -> bool {
    let mut found = false;
    crate::tree::walk(expr, depth, &mut |expr| match &expr.kind {
        ExprKind::New { ty, .. } => found |= is_reported(crate::tree::last_part(ty.name)),
        ExprKind::Call { target: None, name, .. } => found |= is_reported(name),
        ExprKind::Call { target: Some(target), name, .. } => {
            if let ExprKind::Name(owner) = &target.kind {
                found |= matches!(*name, "builder" | "create" | "newInstance") && is_reported(owner);
            }
        }
        _ => {}
    });
    found
}

/// Functional beans, which Spring Cloud Stream binds to topics.
fn bindings(machine: &mut Machine<'_>) -> Vec<Listener> {
    let mut found = Vec::new();
    for bean in machine.world.beans() {
        let place = machine.world.place(bean.class);
        let Some(ret) = bean.method.ret.as_ref().map(|ret| machine.world.ty(ret, place)) else { continue };
        let is_function = match ret.base {
            Base::Library { name: "Consumer" | "Function", path } => {
                path.is_none_or(|path| path.starts_with("java.util.function") || path.starts_with("kotlin"))
            }
            _ => false,
        };
        if !is_function {
            continue;
        }
        let value = machine.bean_value(bean.class, bean.method);
        let at = site(place.file, bean.method.name_at);
        let name = machine.bean_names(bean.class, bean.method).into_iter().next().unwrap_or_default();
        found.extend(machine.binding(name, &ret, &value, at));
    }
    for library in ["Consumer", "Function"] {
        for class in machine.world.implementers(library) {
            let own = machine.world.class(class);
            if !own.annotations.iter().any(|it| matches!(it.simple(), "Component" | "Service")) {
                continue;
            }
            let Some(ty) = machine.world.library_supers(class).into_iter().find(|ty| ty.lib() == Some(library)) else {
                continue;
            };
            let at = machine.world.class_site(class);
            let value = Val::Obj(machine.bean_object(class));
            found.extend(machine.binding(own.name.to_owned(), &ty, &value, at));
        }
    }
    found.retain(|listener| !listener.writes.is_empty());
    found
}

/// Listeners that are given to containers.
fn container_listeners(machine: &mut Machine<'_>) -> Vec<Listener> {
    let mut found: Vec<Listener> = Vec::new();
    let count = machine.objs.borrow().len();
    for at in 0..count {
        let id = ObjId::from_index(at);
        if !machine.is_a(id, "ContainerProperties") && machine.is_container_or_factory(id) != Some(true) {
            continue;
        }
        for call in machine.logged(id, &["setMessageListener", "setupMessageListener"]) {
            if let Some(arg) = call.args.first()
                && let Some(mut listener) = machine.container_listener(&arg.val, arg.site)
            {
                if machine.is_a(id, "ContainerProperties") {
                    let topics = machine.obj(id, |obj| obj.args.first().cloned());
                    listener.topics = topics.map(|topics| {
                        let value = machine.value(&topics.val, topics.site);
                        machine.setting(value, topics.site, false)
                    });
                }
                if !found.contains(&listener) {
                    found.push(listener);
                }
            }
        }
    }
    found
}

/// Reads everything that is reported off the objects that were made.
fn read_objects<'s>(machine: &mut Machine<'s>, seeds: &[u32]) -> Analysis {
    let mut analysis = Analysis::default();
    let count = machine.objs.borrow().len();
    let ids: Vec<ObjId> = (0..count).map(ObjId::from_index).collect();
    let (names, conditions) = (bean_names(machine), bean_conditions(machine));
    let named = |id: ObjId| names.get(&id).cloned().unwrap_or_default();
    // The same expression run again for the same bean gives an equal object: it is reported once.
    let mut handler_at: HashMap<ObjId, usize> = HashMap::new();
    let handlers: Vec<ObjId> = ids.iter().copied().filter(|id| machine.handler_kind_of(*id).is_some()).collect();
    for (index, id) in handlers.iter().enumerate() {
        handler_at.insert(*id, index);
    }
    for id in &handlers {
        if let Some(mut handler) = machine.error_handler(*id, &|id| handler_at.get(&id).copied()) {
            handler.names = named(*id);
            handler.depends_on = conditions.get(id).cloned();
            analysis.error_handlers.push(handler);
        }
    }
    let consumers: Vec<ObjId> = ids.iter().copied().filter(|id| machine.is_consumer_factory(*id)).collect();
    let consumer_at: HashMap<ObjId, usize> = consumers.iter().enumerate().map(|(index, id)| (*id, index)).collect();
    for id in &consumers {
        let mut factory = machine.consumer_factory(*id);
        factory.names = named(*id);
        analysis.consumer_factories.push(factory);
    }
    for id in &ids {
        if machine.is_container_or_factory(*id).is_none()
            || machine.obj(*id, |obj| obj.origin == crate::machine::Origin::Part)
        {
            continue;
        }
        let mut factory =
            machine.container_factory(*id, &|id| handler_at.get(&id).copied(), &|id| consumer_at.get(&id).copied());
        factory.names = named(*id);
        analysis.container_factories.push(factory);
    }
    read_clients(machine, &ids, &named, seeds, &mut analysis);
    read_factory_customizers(machine, &mut analysis);
    for id in &ids {
        if machine.is_a(*id, "RetryTopicConfigurationBuilder") {
            let topic = machine.retry_topic(*id);
            analysis.retry_topics.push(topic);
        }
        if machine.is_a(*id, "MongoTransactionManager") || machine.is_a(*id, "ReactiveMongoTransactionManager") {
            analysis.transaction_managers.push(machine.span(machine.site_of(*id)));
        }
    }
    analysis
}

/// A bean of one of Spring Boot's customizers.
struct Customizer<'s> {
    /// The function or object.
    value: Val<'s>,
    /// Where it is.
    at: Site,
    /// Its bean's names; empty for a component.
    names: Vec<String>,
    /// It may not be there.
    is_doubtful: bool,
}

/// The beans and components of one of Spring Boot's customizer interfaces.
fn customizers<'s>(machine: &mut Machine<'s>, interface: &str) -> Vec<Customizer<'s>> {
    let mut found = Vec::new();
    for bean in machine.world.beans() {
        let place = machine.world.place(bean.class);
        let ret = bean.method.ret.as_ref().map(|ret| machine.world.ty(ret, place));
        let customizes = ret.as_ref().and_then(Ty::lib).is_some_and(|name| name.starts_with(interface));
        let kotlin = ret.is_none()
            && bean.method.body.as_ref().and_then(Body::read).is_some_and(
                |body| matches!(&body.kind, ExprKind::Call { target: None, name, .. } if *name == interface),
            );
        if !customizes && !kotlin {
            continue;
        }
        // Kotlin's `MongoClientSettingsBuilderCustomizer { }` makes an object of a function.
        let value = match machine.bean_value(bean.class, bean.method) {
            Val::Obj(id) if machine.obj_class(id).is_none() => {
                machine.obj(id, |obj| obj.args.first().map(|arg| arg.val.clone())).unwrap_or(Val::Void)
            }
            value => value,
        };
        let at = site(place.file, bean.method.name_at);
        let names = machine.bean_names(bean.class, bean.method);
        let presence = machine.world.presence_of_bean(bean.class, bean.method);
        found.push(Customizer { value, at, names, is_doubtful: presence != Presence::There });
    }
    for class in machine.world.implementers(interface) {
        let own = machine.world.class(class);
        if own.kind == ClassKind::Class && !own.name.is_empty() {
            let at = machine.world.class_site(class);
            let is_doubtful = machine.world.presence(class) != Presence::There;
            let value = Val::Obj(machine.bean_object(class));
            found.push(Customizer { value, at, names: Vec::new(), is_doubtful });
        }
    }
    found
}

fn read_factory_customizers(machine: &mut Machine<'_>, analysis: &mut Analysis) {
    for customizer in customizers(machine, "DefaultKafkaConsumerFactoryCustomizer") {
        if let Some(mut factory) = machine.factory_customizer(&customizer.value, customizer.at) {
            factory.names = customizer.names;
            factory.properties.iter_mut().for_each(|property| property.conditional |= customizer.is_doubtful);
            analysis.consumer_customizers.push(factory);
        }
    }
}

fn read_clients<'s>(
    machine: &mut Machine<'s>,
    ids: &[ObjId],
    named: &dyn Fn(ObjId) -> Vec<String>,
    seeds: &[u32],
    analysis: &mut Analysis,
) {
    for customizer in customizers(machine, "MongoClientSettingsBuilderCustomizer") {
        if let Some(mut client) = machine.customizer(&customizer.value, customizer.at) {
            client.names = customizer.names;
            analysis.mongo_clients.push(client);
        }
    }
    for file in seeds {
        for class in machine.world.classes_of(*file) {
            let supers = machine.world.library_supers(class);
            let configures = ["AbstractMongoClientConfiguration", "AbstractReactiveMongoConfiguration"];
            if supers.iter().any(|ty| ty.lib().is_some_and(|name| configures.contains(&name)))
                && !machine.world.presence(class).is_absent()
            {
                analysis.mongo_clients.extend(machine.configured_client(class));
            }
        }
    }
    let given: HashSet<ObjId> = ids
        .iter()
        .filter(|id| machine.is_a(**id, "MongoClients"))
        .filter_map(|id| {
            let arg = machine.obj(*id, |obj| obj.args.first().map(|arg| arg.val.clone()))?;
            match arg {
                Val::Obj(settings) => Some(settings),
                _ => None,
            }
        })
        .collect();
    for id in ids {
        let kind = if machine.is_a(*id, "MongoClientSettings") && !given.contains(id) {
            ClientKind::Settings
        } else if machine.is_a(*id, "MongoClients") {
            ClientKind::Create
        } else {
            continue;
        };
        let mut client = machine.mongo_client(*id, kind);
        client.names = named(*id);
        analysis.mongo_clients.push(client);
    }
}

/// What the being there of beans depends on, where that is not known, by object.
fn bean_conditions<'s>(machine: &Machine<'s>) -> HashMap<ObjId, String> {
    let mut conditions = HashMap::new();
    let mut add = |id: ObjId, presence: Presence| {
        if let Presence::Unknown { on, .. } = presence {
            conditions.insert(id, on);
        }
    };
    for bean in machine.world.beans() {
        let value = machine.bean_values.borrow().get(&std::ptr::from_ref(bean.method)).cloned().flatten();
        if let Some(Val::Obj(id)) = value {
            add(id, machine.world.presence_of_bean(bean.class, bean.method));
        }
    }
    for (class, id) in machine.bean_objs.borrow().iter() {
        add(*id, machine.world.presence(*class));
    }
    conditions
}

/// The beans' names by object.
fn bean_names<'s>(machine: &mut Machine<'s>) -> HashMap<ObjId, Vec<String>> {
    let mut names: HashMap<ObjId, Vec<String>> = HashMap::new();
    for bean in machine.world.beans() {
        let value = machine.bean_values.borrow().get(&std::ptr::from_ref(bean.method)).cloned().flatten();
        if let Some(Val::Obj(id)) = value {
            let own = machine.bean_names(bean.class, bean.method);
            names.entry(id).or_default().extend(own);
        }
    }
    let components: Vec<(ClassId, ObjId)> =
        machine.bean_objs.borrow().iter().map(|(class, id)| (*class, *id)).collect();
    for (class, id) in components {
        let own = machine.world.class(class);
        if own.annotations.iter().any(|it| matches!(it.simple(), "Component" | "Service" | "Configuration")) {
            let mut chars = own.name.chars();
            let name = chars.next().into_iter().flat_map(char::to_lowercase).chain(chars).collect();
            names.entry(id).or_default().push(name);
        }
    }
    names
}

/// Links each listener to its container factory and error handler.
fn link(analysis: &mut Analysis) {
    let factories: Vec<ContainerFactory> = analysis.container_factories.clone();
    let by_name = |name: &str| factories.iter().position(|factory| factory.names.iter().any(|own| own == name));
    let boot_handler = boot_handler(analysis);
    let containers: Vec<usize> = (0..factories.len()).filter(|at| factories[*at].is_container).collect();
    for listener in &mut analysis.listeners {
        let factory = match (&listener.kind, listener.container_factory.as_ref().map(|it| &it.value)) {
            (ListenerKind::StreamBinding, _) => {
                Link::Unknown { why: "Spring Cloud Stream's binder makes it".to_owned() }
            }
            (ListenerKind::Container, _) => {
                Link::of(containers.clone()).unwrap_or(Link::Unknown { why: "its container was not found".to_owned() })
            }
            (_, Some(value)) => match value.as_str() {
                Some(name) => match by_name(name) {
                    Some(index) => Link::Found { index },
                    None if name == "kafkaListenerContainerFactory" => Link::Boot,
                    None => Link::Missing { name: name.to_owned() },
                },
                None => Link::Unknown { why: "the name of the factory is not known".to_owned() },
            },
            (_, None) => match by_name("kafkaListenerContainerFactory") {
                Some(index) => Link::Found { index },
                None => Link::Boot,
            },
        };
        listener.handler = match &factory {
            Link::Found { index } => {
                let factory = &factories[*index];
                match (&factory.error_handler, factory.boot_configured.is_some()) {
                    (Link::Default, true) => boot_handler.clone(),
                    (link, _) => link.clone(),
                }
            }
            Link::Ambiguous { candidates } => {
                let links: Vec<_> = candidates.iter().map(|at| factories[*at].error_handler.clone()).collect();
                match links.as_slice() {
                    [first, rest @ ..] if rest.iter().all(|link| link == first) => first.clone(),
                    _ => Link::of(links.iter().flat_map(Link::candidates).copied().collect()).unwrap_or(Link::Default),
                }
            }
            Link::Boot => boot_handler.clone(),
            _ => Link::Unknown { why: "its container factory is not known".to_owned() },
        };
        listener.factory = factory;
    }
}

/// The handler that Spring Boot's configurer takes: the one bean, or the primary one.
fn boot_handler(analysis: &Analysis) -> Link {
    use crate::error_handler::HandlerKind;
    let beans: Vec<usize> = analysis
        .error_handlers
        .iter()
        .enumerate()
        .filter(|(_, handler)| !handler.names.is_empty() && handler.kind != HandlerKind::AfterRollback)
        .map(|(at, _)| at)
        .collect();
    let primary: Vec<usize> = beans.iter().copied().filter(|at| analysis.error_handlers[*at].primary).collect();
    // Where it may not be there, another one or the default may hold.
    let depends_on = |at: &usize| analysis.error_handlers[*at].depends_on.as_ref();
    if let Some(on) = beans.iter().find_map(depends_on) {
        return Link::Unknown { why: format!("whether its bean is there depends on {on}, which is not known") };
    }
    if let [only] = primary.as_slice() {
        return Link::Found { index: *only };
    }
    Link::of(beans).unwrap_or(Link::Default)
}
