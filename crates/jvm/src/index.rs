//! Where things are declared: files, classes, their supertypes and members. A file is parsed when something asks for it.

use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use crate::condition::Configuration;
use crate::scan::Scan;
use crate::span::{Lines, Range, Site, Span};
use crate::tree::{Body, Class, ClassKind, Constructor, Expr, Field, Method, Tree, Type};

/// A file of the project.
#[derive(Debug)]
pub(crate) struct File<'a> {
    pub path: Arc<str>,
    pub text: &'a str,
    pub kotlin: bool,
    pub scan: Scan<'a>,
    /// Parsed ahead, where it will be needed for sure or nearly so.
    pub tree: Option<Tree<'a>>,
}

impl<'a> File<'a> {
    pub(crate) fn read(&self) -> Tree<'a> {
        if self.kotlin { crate::kotlin::read(self.text) } else { crate::java::read(self.text) }
    }
}

/// A class of the sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ClassId(u32);

#[derive(Debug, Clone, Copy)]
pub(crate) struct ClassInfo<'s> {
    pub class: &'s Class<'s>,
    pub file: u32,
    pub outer: Option<ClassId>,
}

/// A type: a class of the sources, or one of a library.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ty<'s> {
    pub base: Base<'s>,
    pub args: Rc<[Ty<'s>]>,
    pub array: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Base<'s> {
    Class(ClassId),
    /// A library's class: its simple name, and its full one where an import says it.
    Library {
        name: &'s str,
        path: Option<&'s str>,
    },
    /// A type variable of a class.
    Variable(&'s str),
}

impl<'s> Ty<'s> {
    pub(crate) fn library(name: &'s str) -> Self {
        Self::of(Base::Library { name, path: None })
    }

    pub(crate) fn of(base: Base<'s>) -> Self {
        Self { base, args: Rc::from([]), array: false }
    }

    pub(crate) fn class(&self) -> Option<ClassId> {
        match self.base {
            Base::Class(id) if !self.array => Some(id),
            _ => None,
        }
    }

    /// The simple name of a library's class.
    pub(crate) fn lib(&self) -> Option<&'s str> {
        match self.base {
            Base::Library { name, .. } if !self.array => Some(name),
            _ => None,
        }
    }
}

/// Where a name is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub file: u32,
    pub class: Option<ClassId>,
}

/// A `@Bean` method.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BeanMethod<'s> {
    pub class: ClassId,
    pub method: &'s Method<'s>,
}

/// How many classes a supertype walk visits.
const WALK_MAX: usize = 200;

/// A body that was read after its file, and what is wrong with it.
struct LateBody<'s> {
    expr: Expr<'s>,
    problems: Vec<(Range, String)>,
}

pub(crate) struct World<'s> {
    pub files: &'s [File<'s>],
    /// What the conditions on beans are held against; `None`: beans are taken as there.
    pub configuration: Option<&'s dyn Configuration>,
    late: Vec<OnceCell<Tree<'s>>>,
    bodies: Vec<OnceCell<Box<[OnceCell<LateBody<'s>>]>>>,
    tops: Vec<OnceCell<Vec<ClassId>>>,
    lines: Vec<OnceCell<Lines>>,
    by_name: HashMap<&'s str, Vec<u32>>,
    by_function: HashMap<&'s str, Vec<u32>>,
    by_head: HashMap<&'s str, Vec<u32>>,
    classes: RefCell<Vec<ClassInfo<'s>>>,
    by_address: RefCell<HashMap<*const Class<'s>, ClassId>>,
    resolved: RefCell<HashMap<(Place, &'s str), Base<'s>>>,
    supers: RefCell<HashMap<ClassId, Rc<[Ty<'s>]>>>,
    beans: OnceCell<Vec<BeanMethod<'s>>>,
}

impl<'s> World<'s> {
    pub(crate) fn new(files: &'s [File<'s>], configuration: Option<&'s dyn Configuration>) -> Self {
        let mut by_name: HashMap<_, Vec<u32>> = HashMap::new();
        let mut by_function: HashMap<_, Vec<u32>> = HashMap::new();
        let mut by_head: HashMap<_, Vec<u32>> = HashMap::new();
        for (at, file) in (0_u32..).zip(files) {
            file.scan.declares.iter().for_each(|name| by_name.entry(*name).or_default().push(at));
            file.scan.top_level.iter().for_each(|name| by_function.entry(*name).or_default().push(at));
            let mut heads = file.scan.heads.clone();
            heads.sort_unstable();
            heads.dedup();
            heads.iter().for_each(|name| by_head.entry(*name).or_default().push(at));
        }
        Self {
            files,
            configuration,
            late: files.iter().map(|_| OnceCell::new()).collect(),
            bodies: files.iter().map(|_| OnceCell::new()).collect(),
            tops: files.iter().map(|_| OnceCell::new()).collect(),
            lines: files.iter().map(|_| OnceCell::new()).collect(),
            by_name,
            by_function,
            by_head,
            classes: RefCell::default(),
            by_address: RefCell::default(),
            resolved: RefCell::default(),
            supers: RefCell::default(),
            beans: OnceCell::new(),
        }
    }

    pub(crate) fn file(&self, at: u32) -> &'s File<'s> {
        &self.files[at as usize]
    }

    pub(crate) fn tree(&'s self, file: u32) -> &'s Tree<'s> {
        match &self.files[file as usize].tree {
            Some(tree) => tree,
            None => self.late[file as usize].get_or_init(|| self.files[file as usize].read()),
        }
    }

    /// A method's body, which is read now if it was not.
    pub(crate) fn body(&'s self, file: u32, body: &'s Body<'s>) -> &'s Expr<'s> {
        let left = match body {
            Body::Read(expr) => return expr,
            Body::Left(left) => left,
        };
        let late =
            self.bodies[file as usize].get_or_init(|| (0..self.tree(file).left_out).map(|_| OnceCell::new()).collect());
        let read = || {
            let file = self.file(file);
            let read = if file.kotlin { crate::kotlin::read_body } else { crate::java::read_body };
            let (expr, problems) = read(file.text, *left);
            LateBody { expr, problems }
        };
        &late[left.number as usize].get_or_init(read).expr
    }

    /// What could not be read of a file so far, bodies included.
    pub(crate) fn problems(&'s self, file: u32) -> Vec<&'s (Range, String)> {
        if !self.is_parsed(file) {
            return Vec::new();
        }
        let late = self.bodies[file as usize].get().into_iter().flatten().filter_map(OnceCell::get);
        let mut all: Vec<_> = self.tree(file).problems.iter().chain(late.flat_map(|body| &body.problems)).collect();
        all.truncate(crate::syntax::PROBLEMS_MAX);
        all
    }

    /// Whether a file is parsed by now.
    pub(crate) fn is_parsed(&self, file: u32) -> bool {
        self.files[file as usize].tree.is_some() || self.late[file as usize].get().is_some()
    }

    pub(crate) fn span(&self, site: Site) -> Span {
        let file = self.file(site.file);
        let lines = self.lines[site.file as usize].get_or_init(|| Lines::new(file.text));
        lines.span(&file.path, file.text, site.at)
    }

    pub(crate) fn text(&self, site: Site) -> &'s str {
        self.file(site.file).text.get(site.at.start as usize..site.at.end as usize).unwrap_or_default()
    }

    // ---- classes

    /// The classes of a file that are not inside others.
    pub(crate) fn tops(&'s self, file: u32) -> &'s [ClassId] {
        self.tops[file as usize]
            .get_or_init(|| self.tree(file).classes.iter().map(|class| self.register(class, file, None)).collect())
    }

    /// All classes of a file, but local and anonymous ones.
    pub(crate) fn classes_of(&'s self, file: u32) -> Vec<ClassId> {
        let mut found = Vec::new();
        let mut open = self.tops(file).to_vec();
        while let Some(id) = open.pop() {
            found.push(id);
            open.extend(self.nested(id));
        }
        found.sort_unstable();
        found
    }

    /// The id of a class, also of a local or anonymous one.
    pub(crate) fn register(&'s self, class: &'s Class<'s>, file: u32, outer: Option<ClassId>) -> ClassId {
        if let Some(id) = self.by_address.borrow().get(&std::ptr::from_ref(class)) {
            return *id;
        }
        let id = {
            let mut classes = self.classes.borrow_mut();
            classes.push(ClassInfo { class, file, outer });
            ClassId(classes.len() as u32 - 1)
        };
        self.by_address.borrow_mut().insert(std::ptr::from_ref(class), id);
        // Nesting is bounded by the readers' limit on depth.
        class.nested.iter().for_each(|inner| {
            self.register(inner, file, Some(id));
        });
        id
    }

    pub(crate) fn info(&self, id: ClassId) -> ClassInfo<'s> {
        self.classes.borrow()[id.0 as usize]
    }

    pub(crate) fn class(&self, id: ClassId) -> &'s Class<'s> {
        self.info(id).class
    }

    pub(crate) fn nested(&'s self, id: ClassId) -> Vec<ClassId> {
        let info = self.info(id);
        info.class.nested.iter().map(|inner| self.register(inner, info.file, Some(id))).collect()
    }

    /// A nested class by name.
    pub(crate) fn nested_named(&'s self, id: ClassId, name: &str) -> Option<ClassId> {
        self.nested(id).into_iter().find(|inner| self.class(*inner).name == name)
    }

    /// A Kotlin class's companion.
    pub(crate) fn companion(&'s self, id: ClassId) -> Option<ClassId> {
        if !self.file(self.info(id).file).kotlin {
            return None;
        }
        self.nested(id).into_iter().find(|inner| {
            let class = self.class(*inner);
            class.kind == ClassKind::Object && class.name == "Companion"
        })
    }

    pub(crate) fn place(&self, id: ClassId) -> Place {
        Place { file: self.info(id).file, class: Some(id) }
    }

    /// The place of a class's name.
    pub(crate) fn class_site(&self, id: ClassId) -> Site {
        let info = self.info(id);
        Site { file: info.file, at: info.class.name_at }
    }

    fn class_in_package(&'s self, package: &str, name: &str) -> Option<ClassId> {
        for file in self.by_name.get(name)? {
            if self.file(*file).scan.package == package {
                let found = self.tops(*file).iter().find(|id| self.class(**id).name == name);
                if let Some(id) = found {
                    return Some(*id);
                }
            }
        }
        None
    }

    /// A class by its full name, nested ones included.
    pub(crate) fn class_at(&'s self, path: &str) -> Option<ClassId> {
        let (package, name) = path.rsplit_once('.').unwrap_or(("", path));
        if let Some(id) = self.class_in_package(package, name) {
            return Some(id);
        }
        let (outer_package, outer) = package.rsplit_once('.')?;
        let outer = self.class_in_package(outer_package, outer)?;
        self.nested_named(outer, name)
    }

    // ---- types

    pub(crate) fn ty(&'s self, ty: &Type<'s>, place: Place) -> Ty<'s> {
        let args = ty.args.iter().map(|arg| self.ty(arg, place)).collect();
        Ty { base: self.base(ty.name, place), args, array: ty.array }
    }

    pub(crate) fn base(&'s self, name: &'s str, place: Place) -> Base<'s> {
        if let Some(base) = self.resolved.borrow().get(&(place, name)) {
            return *base;
        }
        let base = self.look_up(name, place);
        self.resolved.borrow_mut().insert((place, name), base);
        base
    }

    fn look_up(&'s self, name: &'s str, place: Place) -> Base<'s> {
        if let Some((head, last)) = name.rsplit_once('.') {
            if let Some(id) = self.class_at(name) {
                return Base::Class(id);
            }
            let is_package = head.rsplit('.').next().is_some_and(|part| part.starts_with(char::is_lowercase));
            if is_package {
                return Base::Library { name: last, path: Some(name) };
            }
            return match self.base(head, place) {
                Base::Class(outer) => match self.member_class(outer, last) {
                    Some(inner) => Base::Class(inner),
                    None => Base::Library { name: last, path: None },
                },
                // `MongoClientSettings.Builder` keeps both parts.
                _ => Base::Library { name, path: None },
            };
        }
        // Enclosing classes, their type variables and what they inherit.
        let mut enclosing = place.class;
        while let Some(id) = enclosing {
            let class = self.class(id);
            if class.name == name {
                return Base::Class(id);
            }
            if class.type_params.iter().any(|param| param.name == name) {
                return Base::Variable(name);
            }
            if let Some(inner) = self.nested_named(id, name) {
                return Base::Class(inner);
            }
            enclosing = self.info(id).outer;
        }
        let tree = self.tree(place.file);
        if let Some(import) = tree.imports.iter().find(|import| !import.star && import.name == name) {
            return match self.class_at(import.path) {
                Some(id) => Base::Class(id),
                None => Base::Library { name: crate::tree::last_part(import.path), path: Some(import.path) },
            };
        }
        let package = self.file(place.file).scan.package.as_str();
        if let Some(id) = self.class_in_package(package, name) {
            return Base::Class(id);
        }
        for import in tree.imports.iter().filter(|import| import.star) {
            let in_package = self.class_in_package(import.path, name);
            let found = in_package.or_else(|| self.nested_named(self.class_at(import.path)?, name));
            if let Some(id) = found {
                return Base::Class(id);
            }
        }
        let mut enclosing = place.class;
        while let Some(id) = enclosing {
            if let Some(inner) = self.member_class(id, name) {
                return Base::Class(inner);
            }
            enclosing = self.info(id).outer;
        }
        Base::Library { name, path: None }
    }

    /// A class nested in another, or inherited by it. Only asked for names that nothing else explains, since it may parse.
    fn member_class(&'s self, id: ClassId, name: &str) -> Option<ClassId> {
        if let Some(inner) = self.nested_named(id, name) {
            return Some(inner);
        }
        // Plain names of supertypes are enough here: resolving them fully would ask for this again.
        let info = self.info(id);
        let declared = self.by_name.get(name)?;
        info.class.supers.iter().find_map(|sup| {
            let simple = crate::tree::last_part(sup.ty.name);
            let files = self.by_name.get(simple)?.iter().filter(|file| declared.contains(file));
            files
                .flat_map(|file| self.tops(*file))
                .find_map(|top| (self.class(*top).name == simple).then(|| self.nested_named(*top, name)).flatten())
        })
    }

    pub(crate) fn supers(&'s self, id: ClassId) -> Rc<[Ty<'s>]> {
        if let Some(supers) = self.supers.borrow().get(&id) {
            return supers.clone();
        }
        let info = self.info(id);
        // A class's supertypes are looked up outside its body.
        let place = Place { file: info.file, class: info.outer };
        let supers: Rc<[Ty<'s>]> = info
            .class
            .supers
            .iter()
            .map(|sup| {
                let mut ty = self.ty(&sup.ty, place);
                // Type variables of the class itself are not known outside of it.
                if info.class.type_params.iter().any(|param| sup.ty.args.iter().any(|arg| arg.name == param.name)) {
                    let args = sup.ty.args.iter().map(|arg| self.ty(arg, Place { file: info.file, class: Some(id) }));
                    ty.args = args.collect();
                }
                ty
            })
            .collect();
        self.supers.borrow_mut().insert(id, supers.clone());
        supers
    }

    /// The class and all its supertypes of the sources, nearest first.
    pub(crate) fn lineage(&'s self, id: ClassId) -> Vec<ClassId> {
        let mut found = vec![id];
        let mut at = 0;
        while let Some(next) = found.get(at).copied() {
            for sup in self.supers(next).iter() {
                if let Base::Class(sup) = sup.base
                    && !found.contains(&sup)
                    && found.len() < WALK_MAX
                {
                    found.push(sup);
                }
            }
            at += 1;
        }
        found
    }

    /// The library types that a class extends or implements, directly or not, type variables replaced.
    pub(crate) fn library_supers(&'s self, id: ClassId) -> Vec<Ty<'s>> {
        let mut found = Vec::new();
        let mut seen = HashSet::from([id]);
        let mut open: Vec<(ClassId, Rc<[Ty<'s>]>)> = vec![(id, Rc::from([]))];
        while let Some((at, args)) = open.pop() {
            for sup in self.supers(at).iter() {
                let sup = self.substitute(sup, at, &args, 0);
                match sup.base {
                    Base::Class(next) if seen.len() < WALK_MAX && seen.insert(next) => open.push((next, sup.args)),
                    Base::Library { .. } => found.push(sup),
                    _ => {}
                }
            }
        }
        found
    }

    /// The arguments that `id` gives to its supertype `target`.
    pub(crate) fn args_for(&'s self, id: ClassId, args: &Rc<[Ty<'s>]>, target: ClassId) -> Option<Rc<[Ty<'s>]>> {
        let mut seen = HashSet::from([id]);
        let mut open = vec![(id, args.clone())];
        while let Some((at, args)) = open.pop() {
            if at == target {
                return Some(args);
            }
            for sup in self.supers(at).iter() {
                let sup = self.substitute(sup, at, &args, 0);
                if let Base::Class(next) = sup.base
                    && seen.len() < WALK_MAX
                    && seen.insert(next)
                {
                    open.push((next, sup.args));
                }
            }
        }
        None
    }

    /// Replaces the type variables of `class` by `args`.
    pub(crate) fn substitute(&'s self, ty: &Ty<'s>, class: ClassId, args: &[Ty<'s>], depth: u32) -> Ty<'s> {
        if depth > 8 {
            return ty.clone();
        }
        if let Base::Variable(name) = ty.base {
            let params = &self.class(class).type_params;
            let Some(at) = params.iter().position(|param| param.name == name) else { return ty.clone() };
            return match (args.get(at), &params[at].bound) {
                (Some(arg), _) => arg.clone(),
                (None, Some(bound)) if bound.name != name => self.ty(bound, self.place(class)),
                _ => ty.clone(),
            };
        }
        if ty.args.is_empty() {
            return ty.clone();
        }
        let args = ty.args.iter().map(|arg| self.substitute(arg, class, args, depth + 1)).collect();
        Ty { args, ..ty.clone() }
    }

    pub(crate) fn is_subclass(&'s self, id: ClassId, of: ClassId) -> bool {
        id == of || self.lineage(id).contains(&of)
    }

    /// All classes that extend or implement a class, directly or not; none whose conditions do not hold.
    pub(crate) fn subclasses(&'s self, of: ClassId) -> Vec<ClassId> {
        let mut found: Vec<ClassId> = Vec::new();
        let mut open = vec![of];
        while let Some(at) = open.pop() {
            let name = self.class(at).name;
            for file in self.by_head.get(name).into_iter().flatten() {
                for id in self.classes_of(*file) {
                    let extends = self.supers(id).iter().any(|sup| sup.base == Base::Class(at));
                    if extends
                        && id != of
                        && !found.contains(&id)
                        && found.len() < WALK_MAX
                        && !self.presence(id).is_absent()
                    {
                        found.push(id);
                        open.push(id);
                    }
                }
            }
        }
        found.sort_unstable();
        found
    }

    /// Classes whose supertypes name a library's class; nearest only, and none whose conditions do not hold.
    pub(crate) fn implementers(&'s self, library: &str) -> Vec<ClassId> {
        let mut found = Vec::new();
        for file in self.by_head.get(library).into_iter().flatten() {
            for id in self.classes_of(*file) {
                let implements = self.supers(id).iter().any(|sup| sup.lib() == Some(library));
                if implements && !self.presence(id).is_absent() {
                    found.push(id);
                }
            }
        }
        found
    }

    // ---- members

    pub(crate) fn field(&'s self, id: ClassId, name: &str) -> Option<(ClassId, &'s Field<'s>)> {
        self.lineage(id).into_iter().find_map(|at| {
            let field = self.class(at).fields.iter().find(|field| field.name == name)?;
            Some((at, field))
        })
    }

    /// The methods of a name, those of the class itself first.
    pub(crate) fn methods(&'s self, id: ClassId, name: &str) -> Vec<(ClassId, &'s Method<'s>)> {
        let mut found = Vec::new();
        for at in self.lineage(id) {
            found.extend(self.class(at).methods.iter().filter(|m| m.name == name).map(|method| (at, method)));
        }
        found
    }

    /// The constructor that Spring would call.
    pub(crate) fn injected_constructor(&self, id: ClassId) -> Option<&'s Constructor<'s>> {
        let constructors = &self.class(id).constructors;
        let marked = constructors.iter().find(|constructor| {
            constructor
                .annotations
                .iter()
                .any(|it| matches!(it.simple(), "Autowired" | "Inject" | "ConstructorBinding"))
        });
        marked.or_else(|| constructors.iter().max_by_key(|constructor| constructor.params.len()))
    }

    /// Kotlin's functions outside classes that `place` can see under a name, extensions or not.
    pub(crate) fn functions(&'s self, name: &'s str, place: Place) -> Vec<(u32, &'s Method<'s>)> {
        if !self.file(place.file).kotlin {
            return Vec::new();
        }
        // `import a.b.f as g`
        let imports = &self.tree(place.file).imports;
        let renamed =
            imports.iter().find(|import| import.name == name).map(|import| crate::tree::last_part(import.path));
        let name = renamed.unwrap_or(name);
        let mut found = Vec::new();
        for file in self.by_function.get(name).into_iter().flatten() {
            if self.sees(place.file, *file, name) {
                let functions = self.tree(*file).functions.iter().filter(|function| function.name == name);
                found.extend(functions.map(|function| (*file, function)));
            }
        }
        found
    }

    /// Kotlin's property outside classes.
    pub(crate) fn top_field(&'s self, name: &str, place: Place) -> Option<(u32, &'s Field<'s>)> {
        if !self.file(place.file).kotlin {
            return None;
        }
        self.by_function.get(name).into_iter().flatten().find_map(|file| {
            if !self.sees(place.file, *file, name) {
                return None;
            }
            let field = self.tree(*file).fields.iter().find(|field| field.name == name)?;
            Some((*file, field))
        })
    }

    fn sees(&'s self, from: u32, file: u32, name: &str) -> bool {
        let package = self.file(file).scan.package.as_str();
        package == self.file(from).scan.package
            || self.tree(from).imports.iter().any(|import| {
                if import.star {
                    import.path == package
                } else {
                    import.path.strip_suffix(name).and_then(|path| path.strip_suffix('.')) == Some(package)
                }
            })
    }

    /// What static imports (and Kotlin's imports of an object's members) make of a name: the class that has it.
    pub(crate) fn static_import(&'s self, name: &str, file: u32) -> Vec<(Option<ClassId>, &'s str)> {
        let mut found = Vec::new();
        for import in &self.tree(file).imports {
            let owner = if import.star {
                import.path
            } else if import.name == name {
                match import.path.rsplit_once('.') {
                    Some((owner, _)) => owner,
                    None => continue,
                }
            } else {
                continue;
            };
            if crate::tree::last_part(owner).starts_with(char::is_uppercase) {
                found.push((self.class_at(owner), owner));
            }
        }
        found
    }

    // ---- beans

    pub(crate) fn beans(&'s self) -> &'s [BeanMethod<'s>] {
        self.beans.get_or_init(|| {
            let mut found = Vec::new();
            for (at, file) in (0_u32..).zip(self.files) {
                if !file.scan.beans {
                    continue;
                }
                for id in self.classes_of(at) {
                    let methods = self.class(id).methods.iter();
                    let methods = methods.filter(|method| method.annotations.iter().any(|it| it.simple() == "Bean"));
                    let methods = methods.filter(|method| !self.presence_of_bean(id, method).is_absent());
                    found.extend(methods.map(|method| BeanMethod { class: id, method }));
                }
            }
            found
        })
    }
}

/// The bytes of a thing in a file.
pub(crate) fn site(file: u32, at: Range) -> Site {
    Site { file, at }
}
