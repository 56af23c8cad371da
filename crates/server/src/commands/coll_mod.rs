//! `collMod`.

use backfire_model::Namespace;
use bson::{Bson, Document, doc};

use super::{CommandSpec, Invocation, Reply, Run, Running, idl};
use crate::auth::{Action, Permission};
use crate::error::{CommandError, Result, fail};
use crate::stages::locks::{Access, enter};
use crate::storage::collection::Collection;
use crate::value::{View, text};
use crate::write::validation::Validator;

/// `{collMod: collection, validator, validationLevel, validationAction, index: {keyPattern | name, …}}`.
pub const SPEC: CommandSpec = CommandSpec {
    names: &["collMod"],
    doc: "changes the validator of a collection, or the expiry or visibility of an index",
    permission: Permission::Collection(&[Action::CollMod]),
    parse: |request, _| {
        let ns = idl::collection(request)?;
        idl::only(request, "collMod", FIELDS)?;
        let mut options = Document::new();
        for name in ["validator", "validationLevel", "validationAction"] {
            if let Some(value) = request.get(name) {
                options.insert(name, value.to_bson()?);
            }
        }
        if let Some(other) = options.get("validator").filter(|validator| validator.as_document().is_none()) {
            return Err(idl::wrong_type("collMod", "validator", other.into(), "object"));
        }
        let index = match request.get("index") {
            None => None,
            Some(View::Document(index)) => Some(IndexChange::parse(&index.to_document()?)?),
            Some(other) => return Err(idl::wrong_type("collMod", "index", other, "object")),
        };
        Ok(Box::new(CollMod { ns, options, index }))
    },
    ..CommandSpec::DDL
};

const FIELDS: &[&str] = &["validator", "validationLevel", "validationAction", "index"];

struct CollMod {
    ns: Namespace,
    options: Document,
    index: Option<IndexChange>,
}

/// What becomes of an index.
struct IndexChange {
    named: Named,
    expire_after_seconds: Option<Bson>,
    hidden: Option<bool>,
}

enum Named {
    Name(String),
    Key(Document),
}

impl IndexChange {
    fn parse(index: &Document) -> Result<Self> {
        for name in index.keys() {
            if !["keyPattern", "name", "expireAfterSeconds", "hidden"].contains(&name.as_str()) {
                return Err(idl::unknown("collMod.index", name));
            }
        }
        let named = match (index.get("name"), index.get("keyPattern")) {
            (Some(_), Some(_)) => return fail(72, "Cannot specify both key pattern and name."),
            (Some(Bson::String(name)), None) => Named::Name(name.clone()),
            (None, Some(Bson::Document(key))) => Named::Key(key.clone()),
            _ => return fail(72, "Must specify either index name or key pattern."),
        };
        let expire_after_seconds = index.get("expireAfterSeconds").cloned();
        if expire_after_seconds.as_ref().is_some_and(|value| View::from(value).number().is_none()) {
            return fail(72, "expireAfterSeconds field must be a number");
        }
        let hidden = index.get("hidden").map(|hidden| View::from(hidden).is_true());
        if expire_after_seconds.is_none() && hidden.is_none() {
            return fail(72, "no expireAfterSeconds or hidden field");
        }
        Ok(Self { named, expire_after_seconds, hidden })
    }

    /// The changed specification of the index with what the reply says of it.
    fn apply(&self, collection: &Collection) -> Result<(String, Document, Document)> {
        let indexes = collection.indexes();
        let found = indexes.iter().find(|index| match &self.named {
            Named::Name(name) => index.name == *name,
            Named::Key(key) => index.key_pattern() == *key,
        });
        let Some(index) = found else {
            let asked = match &self.named {
                Named::Name(name) => name.clone(),
                Named::Key(key) => text::document(key),
            };
            return fail(27, format!("cannot find index {asked} for ns {}", collection.ns));
        };
        let (mut spec, mut reply) = (index.spec.clone(), Document::new());
        if let Some(seconds) = &self.expire_after_seconds {
            if let Some(old) = spec.get("expireAfterSeconds") {
                reply.insert("expireAfterSeconds_old", old.clone());
            }
            reply.insert("expireAfterSeconds_new", seconds.clone());
            spec.insert("expireAfterSeconds", seconds.clone());
        }
        if let Some(hidden) = self.hidden {
            if index.name == "_id_" {
                return fail(72, "can't hide _id index");
            }
            let old = spec.get("hidden").is_some_and(|hidden| View::from(hidden).is_true());
            reply.extend(doc! { "hidden_old": old, "hidden_new": hidden });
            spec.remove("hidden");
            if hidden {
                spec.insert("hidden", true);
            }
        }
        Ok((index.name.clone(), spec, reply))
    }
}

impl Invocation for CollMod {
    fn namespace(&self) -> Option<String> {
        Some(self.ns.to_string())
    }

    fn run<'a>(self: Box<Self>, run: Run<'a>) -> Running<'a> {
        Box::pin(async move {
            let shared = run.shared();
            run.op.view().ns = self.ns.to_string();
            let inside = enter(run.op, &self.ns, Access::ChangeCollection).await?;
            let Some(collection) = shared.catalog.get(&self.ns) else {
                return Err(CommandError::new(26, "ns does not exist").into());
            };
            let mut options = collection.options.read().clone();
            options.extend(self.options);
            let validator = Validator::from_options(&options)?;
            let mut reply = Document::new();
            if let Some(index) = &self.index {
                let (name, spec, told) = index.apply(&collection)?;
                shared.catalog.change_index(&collection, &name, spec)?;
                reply = told;
            }
            if options.get_document("validator").is_ok_and(Document::is_empty) {
                options.remove("validator");
            }
            *collection.options.write() = options;
            collection.set_validator(validator);
            shared.catalog.options_changed(&collection);
            shared.topology.next_op_time(&shared.clock);
            drop(inside);
            Ok(Reply::from_document(&reply)?)
        })
    }
}
