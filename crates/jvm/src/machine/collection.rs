//! Lists, maps, streams, optionals and their like.

use std::rc::Rc;

use super::{ArgVal, Call, Machine, ObjId, Origin, Val, Why};
use crate::index::{Base, Ty};
use crate::mongo::write::{Around, AroundKind};
use crate::span::Site;
use crate::value::Value;

/// The kind of container that a type is; arrays are lists.
pub(crate) fn container(ty: &Ty<'_>) -> Option<&'static str> {
    if ty.array {
        return Some("List");
    }
    kind(ty.lib()?)
}

pub(crate) fn is_container(name: &str) -> bool {
    kind(name).is_some()
}

fn kind(name: &str) -> Option<&'static str> {
    Some(match name {
        "List" | "ArrayList" | "LinkedList" | "MutableList" | "ImmutableList" | "Collection" | "MutableCollection"
        | "Iterable" | "Iterator" | "Queue" | "Deque" | "Page" | "Slice" | "Array" | "FindIterable"
        | "AggregateIterable" => "List",
        "Set" | "HashSet" | "LinkedHashSet" | "TreeSet" | "MutableSet" | "SortedSet" => "Set",
        "Map" | "HashMap" | "LinkedHashMap" | "TreeMap" | "MutableMap" | "ConcurrentHashMap" | "ConcurrentMap" => "Map",
        "ConsumerRecords" => "ConsumerRecords",
        "Stream" | "Sequence" => "Stream",
        "Optional" => "Optional",
        "Mono" => "Mono",
        "Flux" | "Publisher" | "Flow" => "Flux",
        "CompletableFuture" | "Future" | "CompletionStage" | "Deferred" => "CompletableFuture",
        "ObjectProvider" => "ObjectProvider",
        _ => return None,
    })
}

/// Whether there can be more than one element.
fn is_many(kind: &str) -> bool {
    !matches!(kind, "Optional" | "Mono" | "CompletableFuture" | "ObjectProvider" | "Result" | "Entry")
}

pub(crate) fn element_type<'s>(ty: &Ty<'s>) -> Option<Ty<'s>> {
    if ty.array {
        return Some(Ty { array: false, ..ty.clone() });
    }
    match container(ty)? {
        "Map" => ty.args.get(1).cloned(),
        "ConsumerRecords" => Some(Ty { args: ty.args.clone(), ..Ty::library("ConsumerRecord") }),
        _ => ty.args.first().cloned(),
    }
}

/// An item of a list that is built step by step.
pub(crate) struct Item<'s> {
    pub val: Val<'s>,
    pub site: Site,
    /// Added once for each element of something.
    pub looped: bool,
}

/// An entry of a map that is built step by step.
pub(crate) struct Entry<'s> {
    pub key: Val<'s>,
    pub val: Val<'s>,
    pub site: Site,
    pub conditional: bool,
}

impl<'s> Machine<'s> {
    pub(crate) fn new_list(&mut self, class: &'s str, args: Vec<ArgVal<'s>>, at: Site) -> Val<'s> {
        let list = self.make(Ty::library(class), Origin::Static, at, args);
        self.obj_mut(list, |obj| obj.made_by = "of");
        Val::Obj(list)
    }

    /// `List.of(a, b)`, or of one array or collection.
    pub(crate) fn list_of(&mut self, class: &'s str, args: Vec<ArgVal<'s>>, at: Site) -> Val<'s> {
        if let [only] = args.as_slice()
            && let Val::Many(_, elem) = self.force(&only.val)
        {
            return Val::Many(kind(class).unwrap_or("List"), elem);
        }
        if matches!(class, "Flux" | "Stream") {
            let elem = self.join(args.into_iter().map(|arg| arg.val).collect());
            return Val::Many(kind(class).unwrap_or("List"), Rc::new(elem));
        }
        self.new_list("List", args, at)
    }

    fn is_list(&self, id: ObjId) -> bool {
        let name = self.obj(id, |obj| obj.ty.lib());
        name.is_some_and(|name| matches!(kind(name), Some("List" | "Set")) || name == "Arrays" || name == "Collections")
    }

    pub(crate) fn is_map(&self, id: ObjId) -> bool {
        let name = self.obj(id, |obj| obj.ty.lib());
        name.is_some_and(|name| kind(name) == Some("Map") || name == "Properties")
    }

    /// The items of a list that the sources build; `None`: it is no such list.
    pub(crate) fn items(&mut self, id: ObjId) -> Option<Vec<Item<'s>>> {
        self.items_within(id, 0)
    }

    fn items_within(&mut self, id: ObjId, depth: u32) -> Option<Vec<Item<'s>>> {
        if !self.is_list(id) || depth > 6 {
            return None;
        }
        let (args, log, made) = self.obj(id, |obj| (obj.args.clone(), obj.log.clone(), obj.origin));
        let mut items = Vec::new();
        for arg in args {
            match made {
                Origin::Static => items.push(Item { val: arg.val, site: arg.site, looped: false }),
                // `new ArrayList<>(other)`; a number is a size.
                _ => self.add_all(&arg, false, depth, &mut items),
            }
        }
        for call in log {
            match &*call.name {
                "add" | "addFirst" | "addLast" | "plus" | "offer" | "push" => {
                    if let Some(arg) = call.args.last() {
                        items.push(Item { val: arg.val.clone(), site: arg.site, looped: call.looped });
                    }
                }
                "addAll" => {
                    if let Some(arg) = call.args.last() {
                        self.add_all(arg, call.looped, depth, &mut items);
                    }
                }
                _ => {}
            }
        }
        Some(items)
    }

    fn add_all(&mut self, arg: &ArgVal<'s>, looped: bool, depth: u32, items: &mut Vec<Item<'s>>) {
        match self.force(&arg.val) {
            Val::Obj(other) => match self.items_within(other, depth + 1) {
                Some(more) => items.extend(more.into_iter().map(|item| Item { looped: item.looped || looped, ..item })),
                None => items.push(Item { val: Val::Obj(other), site: arg.site, looped }),
            },
            Val::Many(_, elem) => items.push(Item { val: (*elem).clone(), site: arg.site, looped: true }),
            Val::Known(Value::Int(_)) | Val::Void => {}
            other => items.push(Item { val: other, site: arg.site, looped: true }),
        }
    }

    pub(crate) fn elements(&mut self, id: ObjId) -> Option<Vec<(Val<'s>, Site)>> {
        let items = self.items(id)?;
        Some(items.into_iter().map(|item| (item.val, item.site)).collect())
    }

    /// The entries of a map that the sources build, in order, and what it was copied from.
    pub(crate) fn entries(&mut self, id: ObjId, depth: u32) -> Option<(Vec<Entry<'s>>, Vec<Val<'s>>)> {
        if !self.is_map(id) || depth > 6 {
            return None;
        }
        let (args, log, made_by) = self.obj(id, |obj| (obj.args.clone(), obj.log.clone(), obj.made_by));
        let mut entries = Vec::new();
        let mut bases = Vec::new();
        let mut from =
            |machine: &mut Self, arg: &ArgVal<'s>, conditional: bool, entries: &mut Vec<Entry<'s>>| match machine
                .force(&arg.val)
            {
                Val::Obj(other) => {
                    let pair = machine.obj(other, |obj| (obj.ty.lib() == Some("Entry")).then(|| obj.args.clone()));
                    if let Some([key, val]) = pair.as_deref() {
                        entries.push(Entry { key: key.val.clone(), val: val.val.clone(), site: val.site, conditional });
                        return;
                    }
                    match machine.entries(other, depth + 1) {
                        Some((more, more_bases)) => {
                            entries.extend(more);
                            bases.extend(more_bases);
                        }
                        None => bases.push(Val::Obj(other)),
                    }
                }
                Val::Known(Value::Int(_)) | Val::Void => {}
                other => bases.push(other),
            };
        if made_by == "of" {
            for pair in args.chunks(2) {
                match pair {
                    [key, val] => entries.push(Entry {
                        key: key.val.clone(),
                        val: val.val.clone(),
                        site: val.site,
                        conditional: false,
                    }),
                    [only] => from(self, only, false, &mut entries),
                    _ => {}
                }
            }
        } else {
            for arg in &args {
                from(self, arg, false, &mut entries);
            }
        }
        for call in &log {
            match (&*call.name, call.args.as_slice()) {
                ("put" | "set" | "putIfAbsent" | "setProperty", [key, val]) => entries.push(Entry {
                    key: key.val.clone(),
                    val: val.val.clone(),
                    site: val.site,
                    conditional: call.conditional,
                }),
                ("putAll" | "plus" | "add", [other]) => from(self, other, call.conditional, &mut entries),
                _ => {}
            }
        }
        Some((entries, bases))
    }

    /// One element of something that is iterated over, and whether those are the listener's records.
    pub(crate) fn element(&mut self, over: &Val<'s>, at: Site) -> (Val<'s>, bool) {
        match self.force(over) {
            Val::Many("Map", elem) => (Val::Many("Entry", elem), false),
            Val::Many(kind, elem) => ((*elem).clone(), matches!(kind, "Records" | "ConsumerRecords")),
            Val::Obj(id) => match self.elements(id) {
                Some(elements) => (self.join(elements.into_iter().map(|(value, _)| value).collect()), false),
                None => (self.any(None, Why::Library, at), false),
            },
            Val::OneOf(parts) => {
                let found: Vec<_> = parts.iter().map(|part| self.element(part, at)).collect();
                let records = found.iter().any(|(_, records)| *records);
                (self.join(found.into_iter().map(|(value, _)| value).collect()), records)
            }
            Val::Any(any) => (self.any(None, any.why, at), false),
            _ => (self.any(None, Why::Library, at), false),
        }
    }

    /// A method of a container.
    pub(crate) fn many_method(&mut self, target: &Val<'s>, call: Call<'s>) -> Val<'s> {
        let Val::Many(kind, elem) = target else { return Val::Void };
        let (kind, elem) = (*kind, (**elem).clone());
        let functions: Vec<_> = call.args.iter().filter(|arg| matches!(arg.val, Val::Fun(_))).cloned().collect();
        match call.name {
            "values" => return Val::Many("List", Rc::new(elem)),
            "keySet" | "keys" | "partitions" => return Val::Many("Set", Rc::new(self.any(None, Why::Record, call.at))),
            "entrySet" | "entries" => return Val::Many("Set", Rc::new(Val::Many("Entry", Rc::new(elem)))),
            "chunked" | "windowed" | "buffer" | "bufferTimeout" | "window" => {
                return Val::Many("List", Rc::new(Val::Many("List", Rc::new(elem))));
            }
            "findFirst" | "findAny" | "min" | "max" | "reduce" if kind == "Stream" => {
                return Val::Many("Optional", Rc::new(elem));
            }
            "collectList" | "collectSortedList" => return Val::Many("Mono", Rc::new(Val::Many("List", Rc::new(elem)))),
            "getKey" | "key" | "component1" if kind == "Entry" => return self.any(None, Why::Library, call.at),
            "size" | "isEmpty" | "isNotEmpty" | "count" | "contains" | "containsKey" | "isPresent" | "indexOf"
            | "hasNext" | "lastIndex" | "hashCode" | "indices" => {
                for arg in &functions {
                    self.each(arg, call.name, kind, &elem, call.at);
                }
                return self.any(None, Why::Library, call.at);
            }
            _ => {}
        }
        let mut results = Vec::new();
        for arg in &functions {
            results.push(self.each(arg, call.name, kind, &elem, call.at));
        }
        match call.name {
            "map" | "mapNotNull" | "mapIndexed" | "mapToObj" | "thenApply" | "mapValues" | "handle"
            | "thenApplyAsync" => {
                let result = results.pop().unwrap_or(Val::Void);
                Val::Many(if kind == "Records" { "Records" } else { kind }, Rc::new(result))
            }
            "flatMap" | "concatMap" | "flatMapMany" | "flatMapIterable" | "flatMapSequential" | "switchMap"
            | "thenCompose" | "flatMapMerge" | "flatMapConcat" | "mapMulti" => {
                let result = results.pop().unwrap_or(Val::Void);
                let (inner, _) = match &result {
                    Val::Many(..) | Val::Obj(_) => self.element(&result, call.at),
                    other => (other.clone(), false),
                };
                let kind = if matches!(call.name, "flatMapMany" | "flatMapIterable") { "Flux" } else { kind };
                Val::Many(kind, Rc::new(inner))
            }
            "then" | "thenReturn" | "thenMany" | "switchIfEmpty" => match call.args.into_iter().next() {
                Some(arg) => match self.force(&arg.val) {
                    Val::Many(other, inner) if call.name == "switchIfEmpty" => {
                        let joined = self.join(vec![elem, (*inner).clone()]);
                        Val::Many(other, Rc::new(joined))
                    }
                    value @ Val::Many(..) => value,
                    value => Val::Many("Mono", Rc::new(value)),
                },
                None => Val::Many("Mono", Rc::new(Val::Void)),
            },
            "groupBy" | "groupingBy" => Val::Many("Map", Rc::new(Val::Many("List", Rc::new(elem)))),
            "associateBy" | "associateWith" | "associate" => Val::Many("Map", Rc::new(elem)),
            "forEach" | "forEachOrdered" | "forEachIndexed" | "ifPresent" | "ifPresentOrElse" | "subscribe"
            | "accept" | "thenAccept" | "thenRun" => Val::Void,
            "orElse" | "orElseGet" | "getOrElse" | "getOrDefault" | "defaultIfEmpty" | "computeIfAbsent" => {
                let other = match results.pop() {
                    Some(result) => result,
                    None => call.args.last().map_or(Val::Void, |arg| arg.val.clone()),
                };
                let other = self.force(&other);
                self.join(vec![elem, other])
            }
            "get" | "getOrNull" | "getOrThrow" | "first" | "firstOrNull" | "last" | "lastOrNull" | "single"
            | "singleOrNull" | "find" | "orElseThrow" | "getFirst" | "getLast" | "next" | "block" | "blockFirst"
            | "blockLast" | "awaitSingle" | "awaitSingleOrNull" | "awaitFirst" | "awaitFirstOrNull" | "await"
            | "join" | "getIfAvailable" | "getIfUnique" | "getObject" | "value" | "getValue" | "component2"
            | "poll" | "peek" | "elementAt" | "random" | "removeFirst" | "remove" | "pop" | "maxByOrNull"
            | "minByOrNull" | "getNow" => elem,
            "fold" | "foldRight" => results.pop().unwrap_or(Val::Void),
            _ => target.clone(),
        }
    }

    /// Runs a function for the elements.
    fn each(&mut self, arg: &ArgVal<'s>, name: &str, kind: &str, elem: &Val<'s>, at: Site) -> Val<'s> {
        let Val::Fun(function) = &arg.val else { return Val::Void };
        let function = function.clone();
        let count = match &*function {
            super::Fun::Lambda { lambda, .. } if !lambda.implicit_it => lambda.params.len(),
            _ => 1,
        };
        let unknown = self.any(None, Why::Library, at);
        let values = match (name, kind, count) {
            (
                "orElseGet" | "orElseThrow" | "ifEmpty" | "switchIfEmpty" | "onErrorResume" | "doOnError"
                | "onErrorMap" | "doFinally" | "exceptionally" | "doOnTerminate" | "getOrElse",
                ..,
            ) => Vec::new(),
            (_, "Map", 2) => vec![unknown, elem.clone()],
            ("forEachIndexed" | "mapIndexed", ..) => vec![unknown, elem.clone()],
            ("fold" | "reduce" | "foldRight", ..) => vec![unknown, elem.clone()],
            (_, "Map", _) => vec![Val::Many("Entry", Rc::new(elem.clone()))],
            ("handle" | "whenComplete", "CompletableFuture", _) => vec![elem.clone(), unknown],
            (_, _, 2) => vec![unknown, elem.clone()],
            _ => vec![elem.clone()],
        };
        let loops = is_many(kind) && !values.is_empty();
        let flow = self.flow;
        if loops {
            let records = matches!(kind, "Records" | "ConsumerRecords");
            let text = self.short_text(at);
            let over = text.split(['(', '{']).next().unwrap_or_default().trim().to_owned();
            self.around.push(Around { kind: AroundKind::Loop { over, records }, span: self.span(at) });
            self.loops += 1;
        }
        let detached = matches!(name, "subscribe" | "thenRunAsync");
        if detached {
            self.around.push(Around { kind: AroundKind::Detached { how: name.to_owned() }, span: self.span(at) });
        }
        let result = self.branch(|machine| machine.invoke(&function, values, None, at));
        if detached {
            self.around.pop();
        }
        if loops {
            self.loops -= 1;
            self.around.pop();
        }
        self.flow = flow;
        result
    }

    /// A method of a list or map that the sources build.
    pub(crate) fn built_method(&mut self, id: ObjId, call: &Call<'s>) -> Option<Val<'s>> {
        let list = self.is_list(id);
        if !list && !self.is_map(id) {
            return None;
        }
        match call.name {
            "add" | "addAll" | "addFirst" | "addLast" | "put" | "putAll" | "set" | "plus" | "setProperty"
            | "putIfAbsent" | "offer" | "push" => {
                self.log(id, call.name, call.args.to_vec(), call.at);
                return Some(if call.name == "plus" { Val::Obj(id) } else { Val::Void });
            }
            "clear" | "remove" | "removeIf" | "sort" | "toMap" | "toMutableMap" | "toMutableList" | "toList" => {
                return Some(Val::Obj(id));
            }
            "get" | "getOrDefault" if !list => {
                let key = call.args.first().map(|arg| self.value(&arg.val, arg.site));
                let (entries, _) = self.entries(id, 0)?;
                let mut found = Vec::new();
                for entry in entries {
                    if Some(self.value(&entry.key, entry.site)) == key {
                        found = vec![entry.val];
                    }
                }
                return Some(if found.is_empty() { self.any(None, Why::Library, call.at) } else { self.join(found) });
            }
            _ => {}
        }
        let many = if list {
            let elements = self.elements(id)?;
            if let ("get", Some(Val::Known(Value::Int(index)))) = (call.name, call.args.first().map(|arg| &arg.val))
                && let Some((value, _)) = usize::try_from(*index).ok().and_then(|index| elements.get(index))
            {
                return Some(value.clone());
            }
            let elem = self.join(elements.into_iter().map(|(value, _)| value).collect());
            Val::Many("List", Rc::new(elem))
        } else {
            let (entries, _) = self.entries(id, 0)?;
            let elem = self.join(entries.into_iter().map(|entry| entry.val).collect());
            Val::Many("Map", Rc::new(elem))
        };
        Some(self.many_method(&many, call.clone()))
    }

    /// Whether a value is a type's container: for declared batches.
    pub(crate) fn records_of(&mut self, ty: &Ty<'s>, at: Site) -> Val<'s> {
        let elem = match ty.base {
            Base::Library { .. } => element_type(ty),
            _ => None,
        };
        let elem = self.any(elem, Why::Record, at);
        Val::Many("Records", Rc::new(elem))
    }
}
