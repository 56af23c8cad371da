//! What a command answers when it fails: a code, a text, and sometimes more fields.

pub mod codes;

use bson::Document;

pub use codes::{Categories, categories};

/// Result of anything a command does.
pub type Result<T, E = CommandError> = std::result::Result<T, E>;

/// A failed command or statement, as a mongod reports it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message} ({code})")]
pub struct CommandError {
    /// The error code; its name comes from [`codes::CODES`].
    pub code: i32,
    /// `errmsg`.
    pub message: String,
    /// Fields that follow the code in the reply, such as `keyPattern` and `keyValue`. Boxed: most errors have none.
    pub extra: Option<Box<Document>>,
}

impl CommandError {
    /// An error without extra fields.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), extra: None }
    }

    /// Adds fields that follow the code.
    pub fn with_extra(mut self, extra: Document) -> Self {
        self.extra = Some(Box::new(extra));
        self
    }

    /// Puts `context` in front of the text, in a mongod's manner.
    pub fn caused_by(mut self, context: &str) -> Self {
        self.message = format!("{context} :: caused by :: {}", self.message);
        self
    }

    /// The categories of its code.
    pub fn categories(&self) -> Categories {
        categories(self.code)
    }

    /// 2 `BadValue`.
    pub fn bad_value(message: impl Into<String>) -> Self {
        Self::new(2, message)
    }

    /// 9 `FailedToParse`.
    pub fn failed_to_parse(message: impl Into<String>) -> Self {
        Self::new(9, message)
    }

    /// 14 `TypeMismatch`.
    pub fn type_mismatch(message: impl Into<String>) -> Self {
        Self::new(14, message)
    }
}

/// Shorthand for `Err(CommandError::new(code, message))`.
///
/// # Errors
/// Always.
pub fn fail<T>(code: i32, message: impl Into<String>) -> Result<T> {
    Err(CommandError::new(code, message))
}
