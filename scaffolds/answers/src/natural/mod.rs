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
//! Each marker is on its own line; white space around it does not count. An empty old snippet means
//! a missing or empty file. The optional last line of a snippet means, as in a diff, that the file
//! ends without a line feed; if neither snippet has it, the file's ending does not change.
//!
//! The form cannot express a link, a file that is not text, or a line that equals a marker.
//! [`write()`] rejects those.

mod read;
mod write;

pub use read::{Edit, Natural, Problem, Snippet, read};
pub use write::{Unwritable, write};

/// As in a diff.
pub(crate) const NO_NEWLINE: &str = "\\ No newline at end of file";

/// Which of the two snippets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Time {
    Before,
    After,
}

impl Time {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}
