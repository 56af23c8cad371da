//! Connection strings and what they mean: the formats of `connection-string` and `uri-options`.

use backfire_model::connection_string::{
    ConnectionString, Host, HostKind, Problem, Property, Secret, TagSet, Value, W, find_option,
};
use bson::{Bson, Document};
use serde_json::{Map, Value as Json, json};

use crate::failure::{Checked, Failure, Within, fail};
use crate::fields::Fields;
use crate::suites::Verdict;

/// What is looked at in a connection string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checks {
    /// Hosts, credentials and options; there are no other options than those that the case names.
    Everything,
    /// Options; those with a warning are not set.
    Options,
}

/// Runs the cases of a file whose descriptions contain `part`.
///
/// # Errors
/// When the file is not in the format.
pub fn run(text: &str, part: &str, checks: Checks) -> Checked<Vec<(String, Verdict)>> {
    let json: Json = serde_json::from_str(text).map_err(Failure::new)?;
    let Bson::Document(document) = Bson::try_from(json).map_err(Failure::new)? else { fail!("not an object") };
    let mut fields = Fields::new("file", document);
    let cases: Vec<Document> = fields.required("tests")?;
    fields.done()?;
    let cases = cases.into_iter().map(Case::read).collect::<Checked<Vec<_>>>()?;
    let chosen = cases.into_iter().filter(|case| case.description.contains(part));
    Ok(chosen.map(|case| (case.description.clone(), case.run(checks))).collect())
}

struct Case {
    description: String,
    uri: String,
    valid: bool,
    warning: Option<bool>,
    hosts: Json,
    auth: Json,
    options: Json,
}

impl Case {
    fn read(document: Document) -> Checked<Self> {
        let mut fields = Fields::new("case", document);
        let description: String = fields.required("description")?;
        let mut json = |name: &str| -> Checked<Json> {
            let value: Option<Bson> = fields.optional(name)?;
            Ok(value.map_or(Json::Null, Bson::into_relaxed_extjson))
        };
        let (hosts, auth, options) = (json("hosts")?, json("auth")?, json("options")?);
        let warning: Option<Bson> = fields.optional("warning")?;
        let case = Self {
            description,
            uri: fields.required("uri")?,
            valid: fields.required("valid")?,
            warning: warning.as_ref().and_then(Bson::as_bool),
            hosts,
            auth,
            options,
        };
        fields.done().within(|| case.description.clone())?;
        Ok(case)
    }

    fn run(&self, checks: Checks) -> Verdict {
        match self.check(checks) {
            Ok(()) => Verdict::Passed(Vec::new()),
            Err(failure) => Verdict::Failed(format!("{}: {failure}", self.uri)),
        }
    }

    fn check(&self, checks: Checks) -> Checked {
        let parsed = match (self.valid, ConnectionString::parse(&self.uri)) {
            (true, Ok(parsed)) => parsed,
            (false, Err(_)) => return Ok(()),
            (true, Err(error)) => fail!("is valid, but: {error}"),
            (false, Ok(_)) => fail!("is invalid, but was accepted"),
        };
        let warnings: Vec<String> = parsed.warnings().map(ToString::to_string).collect();
        match self.warning {
            Some(true) if warnings.is_empty() => fail!("gave no warning"),
            Some(false) if !warnings.is_empty() => fail!("gave warnings: {warnings:?}"),
            _ => {}
        }
        self.check_options(&parsed)?;
        match checks {
            Checks::Everything => {
                self.check_hosts(&parsed)?;
                self.check_auth(&parsed)?;
                self.check_nothing_else(&parsed)
            }
            Checks::Options => check_ignored(&parsed),
        }
    }

    fn check_hosts(&self, parsed: &ConnectionString) -> Checked {
        let kind = |host: &Host| match host.kind() {
            HostKind::Hostname => "hostname",
            HostKind::Ipv4 => "ipv4",
            HostKind::IpLiteral => "ip_literal",
            HostKind::Unix => "unix",
        };
        let hosts = parsed.hosts().iter();
        let hosts: Vec<Json> =
            hosts.map(|host| json!({ "type": kind(host), "host": host.name(), "port": host.port() })).collect();
        equal("hosts", &self.hosts, &Json::from(hosts))
    }

    fn check_auth(&self, parsed: &ConnectionString) -> Checked {
        let auth = json!({
            "username": parsed.user(),
            "password": parsed.password().map(Secret::expose),
            "db": parsed.database(),
        });
        let nobody = json!({ "username": null, "password": null, "db": null });
        equal("auth", if self.auth.is_null() { &nobody } else { &self.auth }, &auth)
    }

    /// Every option that the case names is set as it says.
    fn check_options(&self, parsed: &ConnectionString) -> Checked {
        let none = Map::new();
        for (name, expected) in self.options.as_object().unwrap_or(&none) {
            let Some((option, _)) = find_option(name) else { fail!("there is no option {name}") };
            let value = parsed.value(option.id).map_or(Json::Null, as_json);
            equal(name, expected, &value)?;
        }
        Ok(())
    }

    fn check_nothing_else(&self, parsed: &ConnectionString) -> Checked {
        let set = parsed.occurrences().iter().filter_map(|occurrence| occurrence.option());
        let set: Vec<_> = set.filter(|option| parsed.value(*option).is_some()).collect();
        if self.options.is_null() && !set.is_empty() {
            fail!("options are set: {set:?}")
        }
        Ok(())
    }
}

/// An option whose value gave a warning is not set.
fn check_ignored(parsed: &ConnectionString) -> Checked {
    let ignored = parsed.warnings().filter(|warning| warning.problem == Problem::BadValue);
    match ignored.filter_map(|warning| warning.option).find(|option| parsed.value(*option).is_some()) {
        Some(option) => fail!("{option} is set all the same"),
        None => Ok(()),
    }
}

fn equal(what: &str, expected: &Json, found: &Json) -> Checked {
    if expected == found { Ok(()) } else { fail!("{what}: expected {expected}, found {found}") }
}

fn as_json(value: &Value) -> Json {
    let tags = |set: &TagSet| Json::Object(set.iter().map(|(name, value)| (name.clone(), json!(value))).collect());
    let property = |property: &Property| (property.name.clone(), json!(property.value.expose()));
    match value {
        Value::Bool(value) => json!(value),
        Value::Int(value) => json!(value),
        Value::Text(text) => json!(text),
        Value::Secret(secret) => json!(secret.expose()),
        Value::List(values) => json!(values),
        Value::TagSets(sets) => sets.iter().map(tags).collect(),
        Value::Properties(properties) => Json::Object(properties.iter().map(property).collect()),
        Value::W(W::Nodes(nodes)) => json!(nodes),
        Value::W(W::Tag(tag)) => json!(tag),
    }
}
