//! MongoDB connection strings.
//!
//! Read after the [connection string](https://github.com/mongodb/specifications/blob/master/source/connection-string/connection-string-spec.md)
//! and [URI options](https://github.com/mongodb/specifications/blob/master/source/uri-options/uri-options.md)
//! specifications; defaults are those of the Java driver 5.4 (facts/client.md A3). Nothing is looked up: a
//! `mongodb+srv://` string is read and marked as one that needs DNS.
//!
//! - A string that cannot be used gives an [`Error`], with the place, what is wrong and what to write instead.
//! - What is ignored or doubtful gives warnings ([`ConnectionString::warnings`]), what is worth knowing gives notes.
//! - No secret is ever shown: not by `Display` or `Debug`, not in a message. Only
//!   [`ConnectionString::to_uri_string`] and [`Secret::expose`] give it out.
//!
//! Every option is a row of [`OPTIONS`].

mod conflicts;
mod credential;
mod diagnostic;
mod host;
mod mask;
mod moved;
mod notes;
mod options;
mod parse;
mod percent;
mod reference;
mod render;
mod resolve;
mod secret;
mod typed;
mod value;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

pub use credential::{AuthMechanism, Credential};
pub use diagnostic::{Diagnostic, Error, Part, Problem, Severity};
pub use host::{DEFAULT_PORT, Host, HostKind};
pub use moved::Moved;
pub use options::{
    Alias, DefaultValue, Effect, JavaSupport, OPTIONS, OptionName, OptionSpec, Repeat, find as find_option,
    nearest as nearest_option,
};
pub use reference::reference_markdown;
pub use secret::{MASK, Secret};
pub use value::{Property, TagSet, Value, ValueKind, W};

use diagnostic::Draft;
use mask::Masked;

/// The longest connection string that is read.
pub const MAX_LENGTH_BYTES: usize = 65_536;

/// The most options that are read, repeated and unknown ones included.
pub const MAX_OPTIONS: usize = 1_000;

/// How a connection string begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `mongodb://`: the hosts are in the string.
    Mongodb,
    /// `mongodb+srv://`: the hosts are in DNS.
    MongodbSrv,
}

impl Scheme {
    /// The scheme as it is written, with `://`.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Mongodb => "mongodb://",
            Self::MongodbSrv => "mongodb+srv://",
        }
    }
}

/// One `name=value` of the string, whether it applies or not.
#[derive(Clone)]
pub struct Occurrence {
    name: String,
    option: Option<OptionName>,
    is_deprecated_name: bool,
    value: Secret,
    name_span: Range<usize>,
    value_span: Range<usize>,
    /// False where the "name" may be a piece of a password.
    may_show_name: bool,
    has_plus: bool,
}

impl Occurrence {
    /// The name as written. It may be a piece of a password where `&` is unescaped there, so it is not for output.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The option, if it is a known one.
    pub fn option(&self) -> Option<OptionName> {
        self.option
    }

    /// The decoded value. It may be a password, also where the option is not known.
    pub fn value(&self) -> &Secret {
        &self.value
    }

    /// The bytes of the input it takes.
    pub fn span(&self) -> Range<usize> {
        self.name_span.start..self.value_span.end
    }
}

impl fmt::Debug for Occurrence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Occurrence({}={MASK})", if self.may_show_name { &self.name } else { MASK })
    }
}

/// Two are equal that are written with the same names and values, wherever in the input those stand.
impl PartialEq for Occurrence {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.value) == (&other.name, &other.value)
    }
}

/// A connection string that can be used.
#[derive(Clone)]
pub struct ConnectionString {
    scheme: Scheme,
    user: Option<String>,
    password: Option<Secret>,
    hosts: Vec<Host>,
    database: Option<String>,
    occurrences: Vec<Occurrence>,
    settings: BTreeMap<OptionName, Value>,
    credential: Option<Credential>,
    diagnostics: Vec<Diagnostic>,
    is_suspect: bool,
}

/// Two are equal that say the same; warnings and notes, which are about a spelling, are not compared.
impl PartialEq for ConnectionString {
    fn eq(&self, other: &Self) -> bool {
        let of = |s: &Self| (s.scheme, s.user.clone(), s.password.clone(), s.database.clone());
        of(self) == of(other) && self.hosts == other.hosts && self.occurrences == other.occurrences
    }
}

impl FromStr for ConnectionString {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl ConnectionString {
    /// Reads a connection string.
    ///
    /// # Errors
    /// The first mistake of syntax, or all the conflicts.
    pub fn parse(input: &str) -> Result<Self, Error> {
        let masked = Masked::new(input);
        let mut drafts = Vec::new();
        let parts = parse::parse(input, &mut drafts).map_err(|draft| Error::new(draft.finish(&masked), Vec::new()))?;
        let resolved = resolve::resolve(&parts, &mut drafts);
        conflicts::check(&resolved, &mut drafts);
        let credential = credential::credential(&resolved, &mut drafts);
        notes::add(&resolved, &mut drafts);
        let settings = resolved.settings;
        let mut diagnostics: Vec<Diagnostic> = drafts.into_iter().map(|draft| draft.finish(&masked)).collect();
        diagnostics.sort_by_key(|diagnostic| diagnostic.span.start);
        let (errors, diagnostics): (Vec<_>, Vec<_>) =
            diagnostics.into_iter().partition(|diagnostic| diagnostic.severity == Severity::Error);
        let mut errors = errors.into_iter();
        if let Some(first) = errors.next() {
            return Err(Error::new(first, errors.collect()));
        }
        Ok(Self {
            scheme: parts.scheme,
            user: parts.user,
            password: parts.password,
            hosts: parts.hosts,
            database: parts.database,
            occurrences: parts.occurrences,
            settings,
            credential,
            diagnostics,
            is_suspect: parts.is_suspect,
        })
    }

    /// The scheme.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Whether hosts and some options are in DNS only; then [`ConnectionString::hosts`] is the one name to look up.
    pub fn needs_dns(&self) -> bool {
        self.scheme == Scheme::MongodbSrv
    }

    /// The hosts, at least one, in the order of the string.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The user name before the `@`.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The password before the `@`; it may be empty.
    pub fn password(&self) -> Option<&Secret> {
        self.password.as_ref()
    }

    /// What stands between the hosts and the options, decoded. The Java driver takes what is before the first dot as
    /// the database and the rest as a collection.
    pub fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// The credential, with the database and properties that the mechanism makes of it.
    pub fn credential(&self) -> Option<&Credential> {
        self.credential.as_ref()
    }

    /// Every option as it stands in the string, also repeated and unknown ones.
    pub fn occurrences(&self) -> &[Occurrence] {
        &self.occurrences
    }

    /// What an option is set to; `None` where the default applies.
    pub fn value(&self, option: OptionName) -> Option<&Value> {
        self.settings.get(&option)
    }

    /// What is ignored or will not mean what was meant, in the order of the string.
    pub fn warnings(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Warning)
    }

    /// What is worth knowing, in the order of the string.
    pub fn notes(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Note)
    }

    /// The same settings for other hosts, with `mongodb://`.
    ///
    /// From an SRV string the options for DNS are left out; that it encrypts by default stays, as `tls=true`.
    ///
    /// # Errors
    /// No host, or a number of hosts that contradicts an option.
    pub fn with_hosts(&self, hosts: &[Host]) -> Result<Self, Error> {
        let mut changed = Self { scheme: Scheme::Mongodb, hosts: hosts.to_vec(), ..self.clone() };
        if self.needs_dns() {
            changed.occurrences.retain(|occurrence| !occurrence.option.is_some_and(|option| option.spec().srv_only));
            if !self.settings.contains_key(&OptionName::Tls) {
                changed.set(OptionName::Tls, self.tls().to_string());
            }
        }
        Self::parse(&changed.to_uri_string())
    }

    /// The same with one option set to this value, in place of all its occurrences.
    ///
    /// # Errors
    /// A name that is not known, a value that the option does not allow, or a conflict.
    pub fn with_option(&self, name: &str, value: &str) -> Result<Self, Error> {
        let Some((spec, _)) = options::find(name) else { return Err(unknown_option(name)) };
        let mut changed = self.clone();
        changed.set(spec.id, value.to_owned());
        let changed = Self::parse(&changed.to_uri_string())?;
        // What a string may hold with a warning is a mistake where a program sets it.
        let is_wrong = |warning: &&Diagnostic| {
            warning.option == Some(spec.id) && matches!(warning.problem, Problem::BadValue | Problem::EmptyValue)
        };
        let Some(mut wrong) = changed.warnings().find(is_wrong).cloned() else { return Ok(changed) };
        wrong.severity = Severity::Error;
        Err(Error::new(wrong, Vec::new()))
    }

    /// The same without an option.
    ///
    /// # Errors
    /// A name that is not known, or a conflict that the option prevented.
    pub fn without_option(&self, name: &str) -> Result<Self, Error> {
        let Some((spec, _)) = options::find(name) else { return Err(unknown_option(name)) };
        let mut changed = self.clone();
        changed.occurrences.retain(|occurrence| occurrence.option != Some(spec.id));
        Self::parse(&changed.to_uri_string())
    }

    /// Puts one occurrence in the place of all of an option. Spans are those of no text; the caller reads it anew.
    fn set(&mut self, option: OptionName, value: String) {
        self.occurrences.retain(|occurrence| occurrence.option != Some(option));
        self.occurrences.push(Occurrence {
            name: option.spec().name.to_owned(),
            option: Some(option),
            is_deprecated_name: false,
            value: Secret::new(value),
            name_span: 0..0,
            value_span: 0..0,
            may_show_name: true,
            has_plus: false,
        });
    }
}

fn unknown_option(name: &str) -> Error {
    let message = format!("there is no option {}", diagnostic::quote(name));
    let draft = Draft::error(Problem::UnknownOption, Part::OptionName, 0..name.len(), message);
    let draft = match options::nearest(name) {
        Some(nearest) => draft.help(format!("did you mean {nearest}?")),
        None => draft,
    };
    Error::new(draft.finish(&Masked::new(name)), Vec::new())
}

#[cfg(test)]
mod tests;
