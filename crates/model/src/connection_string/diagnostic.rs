//! What is wrong with, or worth knowing about, a connection string.
//!
//! No text here ever holds a secret. A message quotes the input only where nothing of a password can be, and the
//! string that [`Diagnostic::snippet`] shows has every place masked where a password is or may be.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::mask::Masked;
use super::options::OptionName;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; nothing is ignored.
    Note,
    /// Something is ignored, or will not mean what was meant.
    Warning,
    /// The string cannot be used.
    Error,
}

/// The part of the string that a diagnostic is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// The string as a whole.
    Whole,
    /// `mongodb://` or `mongodb+srv://`.
    Scheme,
    /// The user name.
    User,
    /// The password.
    Password,
    /// A host.
    Host,
    /// A host's port.
    Port,
    /// The database after the hosts.
    Database,
    /// The name of an option.
    OptionName,
    /// The value of an option.
    OptionValue,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Whole => "connection string",
            Self::Scheme => "scheme",
            Self::User => "user name",
            Self::Password => "password",
            Self::Host => "host",
            Self::Port => "port",
            Self::Database => "database",
            Self::OptionName => "option name",
            Self::OptionValue => "option value",
        })
    }
}

/// The kind of a diagnostic, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Problem {
    /// Longer than [`super::MAX_LENGTH_BYTES`], or more than [`super::MAX_OPTIONS`] options.
    TooLong,
    /// The scheme is missing or another one.
    Scheme,
    /// No host, or an empty one in the list.
    EmptyHost,
    /// Text that is no host.
    BadHost,
    /// An IPv6 address without brackets.
    Ipv6Brackets,
    /// A port that is missing, no number or out of range.
    BadPort,
    /// A Unix socket with a port.
    SocketPort,
    /// A Unix socket whose path does not end in `.sock`.
    SocketSuffix,
    /// A `/` in a host.
    SocketSlash,
    /// A character that has to be escaped.
    UnescapedCharacter,
    /// A `%` without two hexadecimal digits.
    BadEscape,
    /// Escapes that give no UTF-8.
    NotUtf8,
    /// Text that was escaped twice, it seems.
    EscapedTwice,
    /// A user name of no characters.
    EmptyUser,
    /// A database name that MongoDB does not allow.
    BadDatabase,
    /// An option without `=`.
    OptionWithoutValue,
    /// An option without a name before `=`.
    OptionWithoutName,
    /// `;` between options.
    LegacySeparator,
    /// An option that is not known.
    UnknownOption,
    /// A value that the option does not allow.
    BadValue,
    /// An option with nothing after `=`.
    EmptyValue,
    /// An option that occurs more than once.
    Repeated,
    /// An old name of an option.
    DeprecatedName,
    /// An option that is going out of use.
    DeprecatedOption,
    /// Options, hosts and scheme that do not go together.
    Conflict,
    /// A credential that is incomplete or contradicts its mechanism.
    Credential,
    /// An option that has no effect beside another, or in the Java driver 5.4.
    NoEffect,
    /// Hosts and options that only DNS knows.
    NeedsDns,
}

/// One thing to say about a connection string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Its kind.
    pub problem: Problem,
    /// The part of the string.
    pub part: Part,
    /// The bytes of the input it is about.
    pub span: Range<usize>,
    /// The option it is about, if it is a known one.
    pub option: Option<OptionName>,
    /// What is wrong, and what applies then.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
    /// What drivers do with it, where they differ.
    pub drivers: Option<String>,
    shown: Arc<str>,
    shown_span: Range<usize>,
}

impl Diagnostic {
    /// The masked connection string and below it a mark under the place; two lines.
    pub fn snippet(&self) -> String {
        let columns = |end: usize| self.shown.get(..end).unwrap_or(&self.shown).chars().count();
        let start = columns(self.shown_span.start);
        let width = columns(self.shown_span.end).saturating_sub(start).max(1);
        format!("{}\n{}{}", self.shown, " ".repeat(start), "^".repeat(width))
    }
}

impl fmt::Display for Diagnostic {
    /// One line: message, help, drivers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        for more in [&self.help, &self.drivers].into_iter().flatten() {
            write!(f, "; {more}")?;
        }
        Ok(())
    }
}

/// A connection string that cannot be used. Holds at least one [`Severity::Error`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    first: Box<Diagnostic>,
    others: Vec<Diagnostic>,
}

impl Error {
    pub(super) fn new(first: Diagnostic, others: Vec<Diagnostic>) -> Self {
        Self { first: Box::new(first), others }
    }

    /// The first error.
    pub fn first(&self) -> &Diagnostic {
        &self.first
    }

    /// Every error found; syntax errors end the search, conflicts do not.
    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        std::iter::once(self.first()).chain(&self.others)
    }
}

impl fmt::Display for Error {
    /// The errors, each on a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// A diagnostic before the masked input is known.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) severity: Severity,
    problem: Problem,
    part: Part,
    span: Range<usize>,
    option: Option<OptionName>,
    message: String,
    help: Option<String>,
    drivers: Option<String>,
}

impl Draft {
    fn new(severity: Severity, problem: Problem, part: Part, span: Range<usize>, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { severity, problem, part, span, option: None, message, help: None, drivers: None }
    }

    pub(super) fn error(problem: Problem, part: Part, span: Range<usize>, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, problem, part, span, message)
    }

    pub(super) fn warning(problem: Problem, part: Part, span: Range<usize>, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, problem, part, span, message)
    }

    pub(super) fn note(problem: Problem, part: Part, span: Range<usize>, message: impl Into<String>) -> Self {
        Self::new(Severity::Note, problem, part, span, message)
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(super) fn drivers(mut self, drivers: impl Into<String>) -> Self {
        self.drivers = Some(drivers.into());
        self
    }

    pub(super) fn option(mut self, option: OptionName) -> Self {
        self.option = Some(option);
        self
    }

    pub(super) fn finish(self, masked: &Masked) -> Diagnostic {
        Diagnostic {
            severity: self.severity,
            problem: self.problem,
            part: self.part,
            shown_span: masked.shown_span(&self.span),
            span: self.span,
            option: self.option,
            message: self.message,
            help: self.help,
            drivers: self.drivers,
            shown: masked.text(),
        }
    }
}

/// A short quotation of the input, with control characters escaped.
pub(super) fn quote(text: &str) -> String {
    const LONGEST: usize = 60;
    if text.chars().count() <= LONGEST {
        return format!("{text:?}");
    }
    let start: String = text.chars().take(LONGEST).collect();
    format!("{start:?}...")
}
