//! Why a test does not pass.

use std::fmt;

/// What is wrong, in words, with where it is wrong in front.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(String);

/// A value, or why the test fails.
pub type Checked<T = ()> = Result<T, Failure>;

impl Failure {
    /// A failure in these words.
    pub fn new(what: impl fmt::Display) -> Self {
        Self(what.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Says where something went wrong.
pub trait Within<T> {
    /// Puts `place` in front of the failure.
    ///
    /// # Errors
    /// The failure, if there is one.
    fn within(self, place: impl FnOnce() -> String) -> Checked<T>;
}

impl<T, E: fmt::Display> Within<T> for Result<T, E> {
    fn within(self, place: impl FnOnce() -> String) -> Checked<T> {
        self.map_err(|error| Failure(format!("{}: {error}", place())))
    }
}

/// Ends a function with a failure.
macro_rules! fail {
    ($($words:tt)*) => {
        return Err($crate::failure::Failure::new(format!($($words)*)))
    };
}
pub(crate) use fail;
