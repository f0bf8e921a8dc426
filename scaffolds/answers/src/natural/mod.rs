//! Natural answers: snippets before and after, in FEA-Bench's form.
//!
//! ```text
//! answer  = { line | edit }                ; text between edits is skipped, including fences and <edit>
//! edit    = before { line } after          ; both name the same file
//!         | "[delete " file "]"            ; the prompt does not teach these two: the form has no other way
//!         | "[mode " file " " mode "]"     ; 100644 or 100755
//! before  = "[start of the snippet before editing in " file "]" snippet "[end of the snippet before editing in " file "]"
//! after   = "[start of the snippet after editing in " file "]" snippet "[end of the snippet after editing in " file "]"
//! snippet = { line } [ "\ No newline at end of file" ]
//! ```
//!
//! Each marker is on its own line, ignoring surrounding white space. An empty old snippet means
//! that the file is missing or empty. As in a diff, the optional last line of a snippet means that
//! the file ends without a line feed. If neither snippet has it, the file's ending does not change.
//!
//! The format cannot express a symlink, a binary file, or a line that equals a marker. [`format_answer()`]
//! rejects those.

mod read;
mod write;

pub use read::{Edit, NaturalAnswer, Problem, Snippet, parse_answer};
pub use write::{UnsupportedChange, format_answer};

/// The same marker that diffs use.
pub(crate) const NO_NEWLINE: &str = "\\ No newline at end of file";

/// Selects the old or the new snippet.
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
