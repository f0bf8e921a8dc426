//! Describes the tests in a test file, and possible mistakes in them.

use crate::canary::MistakeKind;

/// A test whose titles and position are known.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TestCase {
    /// The test's title, preceded by the titles of the suites or modules around the test.
    pub titles: Vec<String>,
    /// Changes to the file that each make the test fail.
    pub mistakes: Vec<Mistake>,
    /// Whether the test compares values.
    pub has_comparison: bool,
}

/// A change to a test file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mistake {
    pub kind: MistakeKind,
    /// Whether the change always makes an honest test fail. If false, the run may not reach the
    /// change, or the changed value may not matter.
    pub is_certain: bool,
    /// The byte range to replace.
    pub span: (usize, usize),
    pub replacement: String,
}

/// A change to one assertion.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Change {
    pub kind: MistakeKind,
    pub span: (usize, usize),
    pub replacement: String,
}

impl Change {
    pub(super) fn new(
        kind: MistakeKind,
        span: (usize, usize),
        replacement: impl Into<String>,
    ) -> Self {
        Self { kind, span, replacement: replacement.into() }
    }

    pub(super) fn into_mistake(self, is_certain: bool) -> Mistake {
        let Self { kind, span, replacement: now } = self;
        Mistake { kind, is_certain, span, replacement: now }
    }
}
