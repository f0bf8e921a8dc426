//! Exceptions that official parsers raise.

use std::fmt;

/// An exception that an official parser raises for a log. The parser's harness then counts the
/// instance as an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParserCrash {
    /// The exception class.
    pub exception: &'static str,
    pub line: String,
}

impl ParserCrash {
    pub(crate) fn index_error(line: &str) -> Self {
        Self::new("IndexError", line)
    }

    pub(crate) fn new(exception: &'static str, line: &str) -> Self {
        Self { exception, line: line.chars().take(80).collect() }
    }
}

impl fmt::Display for ParserCrash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the official parser raises {} at {:?}", self.exception, self.line)
    }
}
