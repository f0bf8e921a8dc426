//! Mistakes of the user, told with what to do.

use std::fmt;

use crate::one_line;

/// A mistake of the user: the key or file, and a hint. A command that finds one exits with status
/// 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserError {
    /// The key or file, and what is wrong with it.
    pub what: String,
    /// What to change, in one line.
    pub hint: Option<String>,
}

impl UserError {
    /// An error without a hint.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), hint: None }
    }

    /// A hint may quote user input of any length; it is reduced to one readable line.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(one_line(&hint.into()));
        self
    }
}

impl std::error::Error for UserError {}

impl fmt::Display for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.hint {
            Some(hint) => write!(f, "\n hint: {hint}"),
            None => Ok(()),
        }
    }
}
