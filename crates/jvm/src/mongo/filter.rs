//! What a filter and an update name.

use crate::machine::{ArgVal, Machine, ObjId, Val};
use crate::span::Site;
use crate::value::Value;

/// How deep filters are looked into.
const DEPTH_MAX: u32 = 8;

impl<'s> Machine<'s> {
    /// The fields that a filter names.
    pub(crate) fn filter_fields(&mut self, filter: &Val<'s>) -> Vec<String> {
        let mut fields = Vec::new();
        self.add_fields(filter, &mut fields, 0);
        let mut distinct: Vec<String> = Vec::new();
        for field in fields {
            let field = if field == "id" { "_id".to_owned() } else { field };
            if !distinct.contains(&field) {
                distinct.push(field);
            }
        }
        distinct
    }

    fn add_fields(&mut self, filter: &Val<'s>, fields: &mut Vec<String>, depth: u32) {
        if depth > DEPTH_MAX {
            return;
        }
        match self.force(filter) {
            Val::Obj(id) => self.add_object_fields(id, fields, depth),
            Val::OneOf(parts) => {
                for part in parts.iter() {
                    self.add_fields(part, fields, depth + 1);
                }
            }
            Val::Many(_, elem) => self.add_fields(&elem, fields, depth + 1),
            _ => {}
        }
    }

    fn text(&mut self, arg: Option<&ArgVal<'s>>) -> Option<String> {
        let arg = arg?;
        match self.value(&arg.val, arg.site) {
            Value::Text(text) => Some(text.to_string()),
            _ => None,
        }
    }

    fn add_object_fields(&mut self, id: ObjId, fields: &mut Vec<String>, depth: u32) {
        let (class, made_by, args, log) =
            self.obj(id, |obj| (obj.ty.lib().unwrap_or_default(), obj.made_by, obj.args.clone(), obj.log.clone()));
        match class {
            "Criteria" => {
                if !matches!(made_by, "andOperator" | "orOperator" | "norOperator") {
                    fields.extend(self.text(args.first()));
                }
                for call in &log {
                    match &*call.name {
                        "and" => fields.extend(self.text(call.args.first())),
                        "andOperator" | "orOperator" => {
                            for arg in &call.args {
                                self.add_fields(&arg.val, fields, depth + 1);
                            }
                        }
                        _ => {}
                    }
                }
            }
            "Filters" if !matches!(made_by, "and" | "or" | "not" | "nor") => {
                match self.text(args.first()) {
                    Some(field) if args.len() > 1 || made_by == "exists" => fields.push(field),
                    // `Filters.eq(id)` is about `_id`.
                    _ if made_by == "eq" => fields.push("_id".to_owned()),
                    other => fields.extend(other),
                }
            }
            "Document" | "BasicDBObject" | "BsonDocument" => {
                fields.extend(self.text(args.first()));
                for call in log.iter().filter(|call| matches!(&*call.name, "append" | "put")) {
                    fields.extend(self.text(call.args.first()));
                }
            }
            _ => {
                let inner = log.iter().filter(|call| matches!(&*call.name, "addCriteria" | "and"));
                let inner: Vec<_> = args.iter().chain(inner.flat_map(|call| &call.args)).cloned().collect();
                for arg in inner {
                    self.add_fields(&arg.val, fields, depth + 1);
                }
                // `List.of(a, b)` as an argument.
                if let Some(elements) = self.elements(id) {
                    for (element, _) in elements {
                        self.add_fields(&element, fields, depth + 1);
                    }
                }
            }
        }
    }

    /// The operators of an update: `set`, `inc`, ...
    pub(crate) fn update_operators(&mut self, update: &Val<'s>) -> Vec<String> {
        let mut operators = Vec::new();
        self.add_operators(update, &mut operators, 0);
        let mut distinct: Vec<String> = Vec::new();
        for operator in operators {
            if !distinct.contains(&operator) {
                distinct.push(operator);
            }
        }
        distinct
    }

    fn add_operators(&mut self, update: &Val<'s>, operators: &mut Vec<String>, depth: u32) {
        if depth > DEPTH_MAX {
            return;
        }
        match self.force(update) {
            Val::Obj(id) => {
                let (class, made_by, args, log) = self
                    .obj(id, |obj| (obj.ty.lib().unwrap_or_default(), obj.made_by, obj.args.clone(), obj.log.clone()));
                match class {
                    "Update" => {
                        if made_by == "update" {
                            operators.push("set".to_owned());
                        }
                        let is_operator = |name: &str| {
                            !matches!(name, "apply" | "also" | "filterArray" | "isolated" | "with" | "build")
                        };
                        operators.extend(
                            log.iter().filter(|call| is_operator(&call.name)).map(|call| call.name.to_string()),
                        );
                    }
                    "Updates" if made_by != "combine" => operators.push(made_by.to_owned()),
                    "Document" | "BasicDBObject" | "BsonDocument" => {
                        let appended = log.iter().filter(|call| matches!(&*call.name, "append" | "put"));
                        let keys: Vec<_> = args
                            .first()
                            .into_iter()
                            .chain(appended.filter_map(|call| call.args.first()))
                            .cloned()
                            .collect();
                        for key in keys {
                            let key = self.text(Some(&key));
                            operators.extend(key.as_deref().and_then(|key| key.strip_prefix('$')).map(str::to_owned));
                        }
                    }
                    _ => {
                        for arg in &args {
                            self.add_operators(&arg.val, operators, depth + 1);
                        }
                        if let Some(elements) = self.elements(id) {
                            for (element, _) in elements {
                                self.add_operators(&element, operators, depth + 1);
                            }
                        }
                    }
                }
            }
            Val::OneOf(parts) => {
                for part in parts.iter() {
                    self.add_operators(part, operators, depth + 1);
                }
            }
            Val::Many(_, elem) => self.add_operators(&elem, operators, depth + 1),
            _ => {}
        }
    }

    /// A limit that `maxTime` or `maxTimeMsec` set on a query or on options.
    pub(crate) fn max_time(&mut self, holder: &Val<'s>, sent: bool) -> Option<super::write::MaxTime> {
        let Val::Obj(id) = self.force(holder) else { return None };
        let call = self.last_logged(id, &["maxTime", "maxTimeMsec", "maxTimeMS"])?;
        let arg = call.args.first()?;
        let mut value = self.value(&arg.val, arg.site);
        // `maxTime(5, TimeUnit.SECONDS)`
        if let Some(unit) = call.args.get(1)
            && let Value::Constant { name, .. } = self.value(&unit.val, unit.site)
            && let Some(ms) = crate::machine::unit_ms(&name)
        {
            value = crate::value::compute(crate::value::Operation::Multiply, vec![value, Value::Int(ms)]);
        }
        let limit = self.setting(value, Site { file: call.site.file, at: call.site.at }, call.conditional);
        Some(super::write::MaxTime { limit, sent })
    }
}
