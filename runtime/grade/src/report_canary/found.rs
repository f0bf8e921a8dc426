//! What is found in a test file.

use crate::canary::Kind;

/// A test whose title and place are known.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FoundTest {
    /// Its title after those of the suites or modules around it.
    pub titles: Vec<String>,
    /// Changes of the file that each make the test fail.
    pub mistakes: Vec<Mistake>,
    /// Whether it compares values.
    pub compares: bool,
}

/// A change of a test file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mistake {
    pub kind: Kind,
    /// Whether an honest test fails in every case. Otherwise its run may not reach the change, or
    /// the value may not matter.
    pub is_certain: bool,
    /// The bytes to replace.
    pub span: (usize, usize),
    pub now: String,
}

/// A change of one assertion.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Change {
    pub kind: Kind,
    pub span: (usize, usize),
    pub now: String,
}

impl Change {
    pub(super) fn new(kind: Kind, span: (usize, usize), now: impl Into<String>) -> Self {
        Self { kind, span, now: now.into() }
    }

    pub(super) fn mistake(self, is_certain: bool) -> Mistake {
        let Self { kind, span, now } = self;
        Mistake { kind, is_certain, span, now }
    }
}
