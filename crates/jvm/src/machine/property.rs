//! Values that come from configuration: `@Value`, `@ConfigurationProperties`, `Environment`.

use std::rc::Rc;
use std::sync::Arc;

use super::{Frame, Machine, ObjId, Origin, Scope, Val, Why};
use crate::index::{ClassId, Ty, site};
use crate::span::Site;
use crate::tree::{Annotation, ClassKind};
use crate::value::{Operation, Property, Unknown, Value, compute};

/// `maxAttempts` as `max-attempts`, which is how relaxed binding writes every key.
pub(crate) fn kebab(name: &str) -> String {
    let mut result = String::new();
    for (at, c) in name.chars().enumerate() {
        if c.is_uppercase() {
            if at > 0 {
                result.push('-');
            }
            result.extend(c.to_lowercase());
        } else {
            result.push(c);
        }
    }
    result
}

impl<'s> Machine<'s> {
    /// The text of an annotation's attribute, placeholders resolved to properties.
    pub(crate) fn annotation_text(
        &mut self,
        annotation: &'s Annotation<'s>,
        name: &str,
        file: u32,
        class: Option<ClassId>,
    ) -> Option<Value> {
        let arg = annotation.arg(name)?;
        let frame = Frame::new(None, file, class);
        let value = self.eval(arg, &Scope::top(frame));
        let at = site(file, arg.at);
        let value = self.value(&value, at);
        Some(self.placeholders(value, None, at))
    }

    /// Replaces `${key:default}` in texts by properties.
    pub(crate) fn placeholders(&mut self, value: Value, ty: Option<&str>, at: Site) -> Value {
        match value {
            Value::Text(text) => self.placeholder_text(&text, ty, at, 0),
            Value::List(items) => Value::List(items.into_iter().map(|item| self.placeholders(item, ty, at)).collect()),
            value => value,
        }
    }

    fn placeholder_text(&mut self, text: &str, ty: Option<&str>, at: Site, depth: u32) -> Value {
        if text.contains("#{") {
            return self.expression(text, ty, at, depth);
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(begin) = rest.find("${") {
            let Some(end) = closing(&rest[begin + 2..]) else { break };
            let inside = &rest[begin + 2..begin + 2 + end];
            if begin > 0 {
                parts.push(Value::text(&rest[..begin]));
            }
            rest = &rest[begin + 2 + end + 1..];
            let (key, default) = match split_default(inside) {
                Some((key, default)) => (key, Some(default)),
                None => (inside, None),
            };
            let default = default.map(|default| {
                if depth > 6 { Value::text(default) } else { self.placeholder_text(default, ty, at, depth + 1) }
            });
            let alone = parts.is_empty() && rest.is_empty();
            parts.push(Value::Property(Box::new(Property {
                key: key.trim().to_owned(),
                default,
                ty: ty.filter(|_| alone).map(str::to_owned),
                unit_ms: None,
                span: self.span(at),
            })));
        }
        if parts.is_empty() {
            return typed_text(text, ty);
        }
        if !rest.is_empty() {
            parts.push(Value::text(rest));
        }
        match (parts.len(), parts.pop()) {
            (1, Some(only)) => only,
            (_, last) => {
                parts.extend(last);
                compute(Operation::Concat, parts)
            }
        }
    }

    /// Spring's expression language, in its simplest forms: a placeholder, a literal, a text that is split.
    fn expression(&mut self, text: &str, ty: Option<&str>, at: Site, depth: u32) -> Value {
        let inner = text.trim().strip_prefix("#{").and_then(|text| text.strip_suffix('}')).map(str::trim);
        let quoted = |text: &str| text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')).map(str::to_owned);
        if let Some(inner) = inner {
            let split = inner.strip_suffix(".split(',')").and_then(|text| quoted(text.trim()));
            let plain = quoted(inner).or_else(|| {
                let simple = !inner.contains(['#', '@', '(', '\'', ' ']);
                simple.then(|| inner.to_owned())
            });
            if depth < 6 {
                if let Some(split) = split {
                    let value = self.placeholder_text(&split, None, at, depth + 1);
                    return compute(Operation::Split, vec![value]);
                }
                if let Some(plain) = plain {
                    let is_name = plain.starts_with(char::is_alphabetic) && quoted(inner).is_none();
                    if !is_name || matches!(plain.as_str(), "true" | "false") {
                        return self.placeholder_text(&plain, ty, at, depth + 1);
                    }
                }
            }
        }
        Value::Unknown(Box::new(Unknown {
            text: text.chars().take(80).collect(),
            why: "an expression in Spring's expression language".to_owned(),
            span: self.span(at),
        }))
    }

    /// What `@Value` gives a field or parameter.
    pub(crate) fn value_annotation(
        &mut self,
        annotation: &'s Annotation<'s>,
        ty: Option<&Ty<'s>>,
        file: u32,
    ) -> Option<Val<'s>> {
        let arg = annotation.arg("value")?;
        let frame = Frame::new(None, file, None);
        let text = self.eval(arg, &Scope::top(frame));
        let at = site(file, arg.at);
        let text = self.value(&text, at);
        let ty = ty.map(|ty| self.type_name(ty).to_owned());
        Some(Val::Known(self.placeholders(text, ty.as_deref(), at)))
    }

    /// The prefix of a `@ConfigurationProperties` class.
    pub(crate) fn prefix_of(&mut self, annotations: &'s [Annotation<'s>], file: u32) -> Option<Arc<str>> {
        let annotation = annotations.iter().find(|it| it.simple() == "ConfigurationProperties")?;
        let text = ["prefix", "value"].into_iter().find_map(|name| self.annotation_text(annotation, name, file, None));
        Some(match text {
            Some(Value::Text(text)) => text,
            _ => "".into(),
        })
    }

    /// A field of an object whose fields hold configuration.
    pub(crate) fn property_field(
        &mut self,
        id: ObjId,
        class: ClassId,
        name: &'s str,
        prefix: &str,
        at: Site,
    ) -> Val<'s> {
        if let Some(value) = self.obj(id, |obj| obj.parts.get(name).copied()) {
            return Val::Obj(value);
        }
        let Some((owner, field)) = self.world.field(class, name) else {
            return self.any(None, Why::Unset, at);
        };
        let info = self.world.info(owner);
        let file = info.file;
        let kotlin = self.world.file(file).kotlin;
        let field_site = site(file, field.at);
        let ty = self.field_type(owner, field);
        // The annotations of a record's component stand on the constructor's parameter too.
        let param = info.class.constructors.iter().flat_map(|it| &it.params).find(|param| param.name == name);
        let annotations = || field.annotations.iter().chain(param.into_iter().flat_map(|param| &param.annotations));
        let renamed = annotations().find(|it| it.simple() == "Name");
        let renamed = renamed.and_then(|it| self.annotation_text(it, "value", file, Some(owner)));
        let last = match renamed {
            Some(Value::Text(text)) => text.to_string(),
            _ => kebab(name),
        };
        let key = if prefix.is_empty() { last } else { format!("{prefix}.{last}") };
        let initial = field.value.as_ref().or(param.and_then(|param| param.default.as_ref()));
        let given = self.obj(id, |obj| obj.fields.get(name).cloned());
        let initial = match (given, initial) {
            (Some(given), _) => Some(given),
            (None, Some(value)) => {
                let frame = Frame::new(Some(Val::Obj(id)), file, Some(owner));
                Some(self.aside(|machine| machine.eval(value, &Scope::top(frame))))
            }
            _ => None,
        };
        let nested = ty
            .as_ref()
            .and_then(Ty::class)
            .filter(|inner| !matches!(self.world.class(*inner).kind, ClassKind::Enum) && *inner != class);
        if let Some(nested) = nested {
            let object = match initial {
                Some(Val::Obj(object)) if self.obj_class(object) == Some(nested) => object,
                _ => self.make(Ty::of(crate::index::Base::Class(nested)), Origin::New, field_site, Vec::new()),
            };
            self.obj_mut(object, |obj| obj.prefix = Some(Rc::from(key.as_str())));
            self.obj_mut(id, |obj| obj.parts.insert(name.to_owned(), object));
            return Val::Obj(object);
        }
        let type_name = ty.as_ref().map(|ty| self.type_name(ty).to_owned());
        let declared = annotations().find(|it| it.simple() == "DefaultValue");
        let default = match declared {
            Some(annotation) => {
                let text = self.annotation_text(annotation, "value", file, Some(owner));
                text.map(|text| self.placeholders(text, type_name.as_deref(), field_site))
            }
            None => match initial {
                Some(Val::Any(any)) if any.why == Why::Parameter => None,
                Some(value) => Some(self.value(&value, field_site)),
                None => None,
            },
        };
        let primitive = match type_name.as_deref() {
            Some("int" | "long" | "short" | "byte") if !kotlin => Some(Value::Int(0)),
            Some("double" | "float") if !kotlin => Some(Value::Float(0.0)),
            Some("boolean") if !kotlin => Some(Value::Bool(false)),
            _ => None,
        };
        let unit = annotations().find(|it| it.simple() == "DurationUnit");
        let unit = unit.and_then(|it| self.annotation_text(it, "value", file, Some(owner)));
        let unit_ms = match unit {
            Some(Value::Constant { name, .. }) => super::statics::unit_ms(&name),
            _ => None,
        };
        let span = self.span(field_site);
        Val::Known(Value::Property(Box::new(Property {
            key,
            default: default.or(primitive),
            ty: type_name,
            unit_ms,
            span,
        })))
    }

    /// `environment.getProperty("a.b", Integer.class, 3)`.
    pub(crate) fn environment(&mut self, name: &str, args: &[super::ArgVal<'s>], at: Site) -> Option<Val<'s>> {
        if !matches!(name, "getProperty" | "getRequiredProperty" | "get") {
            return None;
        }
        let key = match self.force(&args.first()?.val) {
            Val::Known(Value::Text(key)) => key.to_string(),
            _ => return None,
        };
        let (mut ty, mut default) = (None, None);
        for arg in args.iter().skip(1) {
            match self.force(&arg.val) {
                Val::Type(of) => ty = Some(self.type_name(&of).to_owned()),
                other => default = Some(self.value(&other, arg.site)),
            }
        }
        let ty = ty.or_else(|| Some("String".to_owned()));
        let span = self.span(at);
        Some(Val::Known(Value::Property(Box::new(Property { key, default, ty, unit_ms: None, span }))))
    }
}

/// Where the brace of `${` closes.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_u32;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return Some(at),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// `key:default`, where the colon is not inside another placeholder.
fn split_default(inside: &str) -> Option<(&str, &str)> {
    let mut depth = 0_u32;
    for (at, c) in inside.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ':' if depth == 0 => return Some((&inside[..at], &inside[at + 1..])),
            _ => {}
        }
    }
    None
}

/// A text that Spring converts to a number, where the target says so.
fn typed_text(text: &str, ty: Option<&str>) -> Value {
    let trimmed = text.trim();
    match ty {
        Some("int" | "Int" | "Integer" | "long" | "Long" | "short" | "Short") => {
            trimmed.parse().map_or_else(|_| Value::text(text), Value::Int)
        }
        Some("double" | "Double" | "float" | "Float") => {
            trimmed.parse().map_or_else(|_| Value::text(text), Value::Float)
        }
        Some("boolean" | "Boolean") => trimmed.parse().map_or_else(|_| Value::text(text), Value::Bool),
        Some("Duration") => crate::value::duration_ms(trimmed).map_or_else(|| Value::text(text), Value::DurationMs),
        _ => Value::text(text),
    }
}
