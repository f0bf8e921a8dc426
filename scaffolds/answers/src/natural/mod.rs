//! Natural answers: snippets before and after an edit, in FEA-Bench's format.
//!
//! ```text
//! answer  = { line | edit }                ; text between edits is skipped, including fences and <edit>
//! edit    = before { line } after          ; both name the same file
//!         | "[delete " file "]"            ; these two are not in the prompt
//!         | "[mode " file " " mode "]"     ; 100644 or 100755
//! before  = "[start of the snippet before editing in " file "]" snippet "[end of the snippet before editing in " file "]"
//! after   = "[start of the snippet after editing in " file "]" snippet "[end of the snippet after editing in " file "]"
//! snippet = { line } [ "\ No newline at end of file" ]
//! ```
//!
//! Each marker is on its own line; whitespace around it is ignored. An empty old snippet means
//! that the file is missing or empty. As in a diff, the optional last line of a snippet means that
//! the file ends without a line feed. If neither snippet has this line, the end of the file does
//! not change.
//!
//! The format cannot express a symlink, a binary file, or a line that looks like a marker.
//! [`format_answer()`] rejects those.

mod read;
mod write;

pub use read::{AnswerProblem, Edit, NaturalAnswer, Snippet, parse_answer};
pub use write::{UnsupportedChange, format_answer};

/// The marker for a missing line feed, the same as in diffs.
pub(crate) const NO_NEWLINE: &str = "\\ No newline at end of file";

/// One of the two snippets of an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SnippetSide {
    Before,
    After,
}

impl SnippetSide {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}
