//! Who the client is: what each authentication mechanism needs and forbids.
//!
//! Source: the [authentication specification](https://github.com/mongodb/specifications/blob/master/source/auth/auth.md),
//! "MongoCredential properties" of each mechanism.

use std::fmt;
use std::ops::Range;

use super::Scheme;
use super::diagnostic::{Draft, Part, Problem};
use super::options::OptionName;
use super::resolve::Resolved;
use super::secret::{MASK, Secret};
use super::value::{Property, Value};

/// An authentication mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AuthMechanism {
    /// `SCRAM-SHA-1`.
    ScramSha1,
    /// `SCRAM-SHA-256`.
    ScramSha256,
    /// `MONGODB-CR`, gone since MongoDB 4.0.
    MongodbCr,
    /// `MONGODB-X509`.
    MongodbX509,
    /// `GSSAPI` (Kerberos).
    Gssapi,
    /// `PLAIN` (LDAP).
    Plain,
    /// `MONGODB-AWS`.
    MongodbAws,
    /// `MONGODB-OIDC`.
    MongodbOidc,
}

/// Whether a mechanism wants a user name or a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Required,
    Optional,
    Forbidden,
    /// Both or neither of user name and password.
    WithUser,
}

/// Where the user is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// `authSource`, else the database after the hosts, else this one.
    Database(&'static str),
    /// `$external` and nothing else.
    External,
}

/// A mechanism and its rules.
#[derive(Debug)]
struct Row {
    mechanism: AuthMechanism,
    name: &'static str,
    user: Need,
    password: Need,
    source: Source,
    properties: &'static [&'static str],
}

const SCRAM: Source = Source::Database("admin");

const ROWS: &[Row] = &[
    row(AuthMechanism::ScramSha1, "SCRAM-SHA-1", Need::Required, Need::Required, SCRAM, &[]),
    row(AuthMechanism::ScramSha256, "SCRAM-SHA-256", Need::Required, Need::Required, SCRAM, &[]),
    row(AuthMechanism::MongodbCr, "MONGODB-CR", Need::Required, Need::Required, SCRAM, &[]),
    row(AuthMechanism::MongodbX509, "MONGODB-X509", Need::Optional, Need::Forbidden, Source::External, &[]),
    row(
        AuthMechanism::Gssapi,
        "GSSAPI",
        Need::Required,
        Need::Optional,
        Source::External,
        &["SERVICE_NAME", "CANONICALIZE_HOST_NAME", "SERVICE_REALM", "SERVICE_HOST"],
    ),
    row(AuthMechanism::Plain, "PLAIN", Need::Required, Need::Required, Source::Database("$external"), &[]),
    row(
        AuthMechanism::MongodbAws,
        "MONGODB-AWS",
        Need::WithUser,
        Need::WithUser,
        Source::External,
        &["AWS_SESSION_TOKEN"],
    ),
    row(
        AuthMechanism::MongodbOidc,
        "MONGODB-OIDC",
        Need::Optional,
        Need::Forbidden,
        Source::External,
        &["ENVIRONMENT", "TOKEN_RESOURCE"],
    ),
];

/// The names, for the option's row.
pub(super) const MECHANISM_NAMES: &[&str] =
    &[ROWS[0].name, ROWS[1].name, ROWS[2].name, ROWS[3].name, ROWS[4].name, ROWS[5].name, ROWS[6].name, ROWS[7].name];

/// The properties whose values are no secrets.
const OPEN_PROPERTIES: &[&str] =
    &["SERVICE_NAME", "CANONICALIZE_HOST_NAME", "SERVICE_REALM", "SERVICE_HOST", "ENVIRONMENT", "TOKEN_RESOURCE"];

const fn row(
    mechanism: AuthMechanism,
    name: &'static str,
    user: Need,
    password: Need,
    source: Source,
    properties: &'static [&'static str],
) -> Row {
    Row { mechanism, name, user, password, source, properties }
}

impl AuthMechanism {
    /// Its name in the option `authMechanism`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The mechanism of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        ROWS.iter().find(|row| row.name == name).map(|row| row.mechanism)
    }

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }
}

/// What the client proves who it is with.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// The user name.
    pub user: Option<String>,
    /// The password.
    pub password: Option<Secret>,
    /// The database that holds the user.
    pub source: String,
    /// The mechanism; `None`: the best SCRAM that the server offers.
    pub mechanism: Option<AuthMechanism>,
    /// The mechanism's properties.
    pub properties: Vec<Property>,
}

impl fmt::Debug for Credential {
    /// The mechanism only. The source too may be a piece of a password, where that has an unescaped `@` and `/`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({})", self.mechanism.map_or("default", AuthMechanism::name))
    }
}

impl Credential {
    /// The value of a property, by its name in any case.
    pub fn property(&self, name: &str) -> Option<&Secret> {
        self.properties.iter().find(|property| property.name.eq_ignore_ascii_case(name)).map(|property| &property.value)
    }
}

/// A property as one may show it: the value of an unknown one, and even its name, may be a piece of a token.
pub(super) fn shown_property(property: &Property) -> String {
    let is = |name: &&str| name.eq_ignore_ascii_case(&property.name);
    if OPEN_PROPERTIES.iter().any(is) {
        format!("{}:{}", property.name, property.value.expose())
    } else if ROWS.iter().any(|row| row.properties.iter().any(is)) {
        format!("{}:{MASK}", property.name)
    } else {
        MASK.to_owned()
    }
}

/// The credential that the string asks for, if any. What is wrong goes to `drafts`.
pub(super) fn credential(resolved: &Resolved<'_>, drafts: &mut Vec<Draft>) -> Option<Credential> {
    let parts = resolved.parts;
    let mechanism = resolved.text(OptionName::AuthMechanism).and_then(AuthMechanism::from_name);
    let mut properties = match resolved.settings.get(&OptionName::AuthMechanismProperties) {
        Some(Value::Properties(properties)) => properties.clone(),
        _ => Vec::new(),
    };
    let source = resolved.text(OptionName::AuthSource);
    let Some(mechanism) = mechanism else {
        if !properties.is_empty() {
            let message = "authMechanismProperties has no effect without authMechanism";
            drafts.push(on_option(resolved, OptionName::AuthMechanismProperties, Problem::NoEffect, message));
        }
        let user = parts.user.clone();
        if user.is_none() {
            if source.is_some() {
                let span = resolved.span_of(OptionName::AuthSource);
                let message = "authSource has no effect without a user name or authMechanism";
                drafts.push(
                    Draft::note(Problem::NoEffect, Part::OptionName, span, message).option(OptionName::AuthSource),
                );
            }
            return None;
        }
        if parts.password.is_none() {
            let message = "there is a user name and no password";
            drafts.push(
                Draft::note(Problem::Credential, Part::User, user_span(parts.scheme, &parts.hosts_span), message)
                    .drivers("the Java driver 5.4 refuses it where no authMechanism is set"),
            );
        }
        let source = source.or(parts.database.as_deref()).unwrap_or("admin").to_owned();
        let password = parts.password.clone();
        return Some(Credential { user, password, source, mechanism: None, properties: Vec::new() });
    };
    let row = mechanism.row();
    check_user(resolved, row, drafts);
    let source = match (row.source, source) {
        (Source::External, None | Some("$external")) => "$external",
        (Source::External, Some(_)) => {
            let message = format!("authSource must be $external with {}", row.name);
            let span = resolved.span_of(OptionName::AuthSource);
            drafts.push(error(span, message).option(OptionName::AuthSource));
            "$external"
        }
        (Source::Database(_), Some(source)) => source,
        (Source::Database(default), None) => parts.database.as_deref().unwrap_or(default),
    };
    check_properties(resolved, row, &properties, drafts);
    if mechanism == AuthMechanism::Gssapi {
        let by_option = resolved.text(OptionName::GssapiServiceName);
        let has = properties.iter().any(|property| property.name.eq_ignore_ascii_case("SERVICE_NAME"));
        if !has {
            let value = Secret::new(by_option.unwrap_or("mongodb"));
            properties.push(Property { name: "SERVICE_NAME".to_owned(), value });
        }
    }
    Some(Credential {
        user: parts.user.clone(),
        password: parts.password.clone(),
        source: source.to_owned(),
        mechanism: Some(mechanism),
        properties,
    })
}

fn check_user(resolved: &Resolved<'_>, row: &Row, drafts: &mut Vec<Draft>) {
    let parts = resolved.parts;
    let name = row.name;
    let span = resolved.span_of(OptionName::AuthMechanism);
    let before_hosts = user_span(parts.scheme, &parts.hosts_span);
    let message = match (row.user, row.password, parts.user.is_some(), parts.password.is_some()) {
        (Need::Required, _, false, _) => format!("authMechanism {name} needs a user name"),
        (_, Need::Required, _, false) => format!("authMechanism {name} needs a password"),
        (_, Need::WithUser, true, false) => format!("authMechanism {name} needs a password where it has a user name"),
        (_, Need::Forbidden, _, true) => {
            let message = format!("authMechanism {name} takes no password");
            let draft = Draft::error(Problem::Credential, Part::Password, before_hosts, message);
            drafts.push(draft.help("remove the ':' and what follows it up to the '@'"));
            return;
        }
        _ => return,
    };
    drafts.push(error(span, message).option(OptionName::AuthMechanism));
}

fn check_properties(resolved: &Resolved<'_>, row: &Row, properties: &[Property], drafts: &mut Vec<Draft>) {
    let span = || resolved.span_of(OptionName::AuthMechanismProperties);
    let mut push = |message: String, help: Option<String>| {
        let draft = error(span(), message).option(OptionName::AuthMechanismProperties);
        drafts.push(match help {
            Some(help) => draft.help(help),
            None => draft,
        });
    };
    let get = |name: &str| properties.iter().find(|p| p.name.eq_ignore_ascii_case(name)).map(|p| p.value.expose());
    if !properties.iter().all(|property| row.properties.iter().any(|name| name.eq_ignore_ascii_case(&property.name))) {
        let help = match row.properties {
            [] => format!("{} has no properties", row.name),
            names => format!("allowed with {}: {}", row.name, names.join(", ")),
        };
        push("authMechanismProperties names a property that the mechanism does not have".to_owned(), Some(help));
    }
    if row.mechanism == AuthMechanism::Gssapi {
        const ALLOWED: &[&str] = &["none", "forward", "forwardAndReverse", "true", "false"];
        if get("CANONICALIZE_HOST_NAME").is_some_and(|value| !ALLOWED.contains(&value)) {
            let help = Some(format!("allowed: {}", ALLOWED.join(", ")));
            push("CANONICALIZE_HOST_NAME has a value that is not allowed".to_owned(), help);
        }
    }
    if row.mechanism == AuthMechanism::MongodbOidc {
        match get("ENVIRONMENT") {
            None => {
                let message = "MONGODB-OIDC without ENVIRONMENT needs a callback, which only code can set";
                let span = resolved.span_of(OptionName::AuthMechanism);
                drafts.push(
                    Draft::note(Problem::Credential, Part::OptionValue, span, message)
                        .option(OptionName::AuthMechanism),
                );
            }
            Some(environment @ ("azure" | "gcp")) => {
                if get("TOKEN_RESOURCE").is_none() {
                    push(format!("ENVIRONMENT {environment} needs TOKEN_RESOURCE too"), None);
                }
                if environment == "gcp" && resolved.parts.user.is_some() {
                    push("ENVIRONMENT gcp takes no user name".to_owned(), None);
                }
            }
            Some(environment @ ("test" | "k8s")) => {
                if get("TOKEN_RESOURCE").is_some() {
                    push(format!("ENVIRONMENT {environment} takes no TOKEN_RESOURCE"), None);
                }
                if resolved.parts.user.is_some() {
                    push(format!("ENVIRONMENT {environment} takes no user name"), None);
                }
            }
            Some(_) => {
                let help = Some("allowed: azure, gcp, k8s, test".to_owned());
                push("ENVIRONMENT has a value that is not allowed".to_owned(), help);
            }
        }
    }
}

fn error(span: Range<usize>, message: String) -> Draft {
    Draft::error(Problem::Credential, Part::OptionValue, span, message)
}

fn on_option(resolved: &Resolved<'_>, option: OptionName, problem: Problem, message: &str) -> Draft {
    Draft::warning(problem, Part::OptionName, resolved.span_of(option), message).option(option)
}

/// From the end of the scheme to the hosts: user name, password and `@`.
fn user_span(scheme: Scheme, hosts: &Range<usize>) -> Range<usize> {
    scheme.prefix().len()..hosts.start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_stands_at_its_mechanism() {
        assert_eq!(MECHANISM_NAMES.len(), ROWS.len());
        for row in ROWS {
            assert_eq!(row.mechanism.name(), row.name);
            assert_eq!(AuthMechanism::from_name(row.name), Some(row.mechanism));
        }
    }
}
