//! Natural answers: snippets before and after, in FEA-Bench's form.
//!
//! ```text
//! answer  = { line | edit }                ; what stands between edits is passed over, fences and <edit> too
//! edit    = before { line } after          ; both name the same file
//!         | "[delete " file "]"            ; these two the prompt does not teach: the form cannot say them otherwise
//!         | "[mode " file " " mode "]"     ; 100644 or 100755
//! before  = "[start of the snippet before editing in " file "]" snippet "[end of the snippet before editing in " file "]"
//! after   = "[start of the snippet after editing in " file "]" snippet "[end of the snippet after editing in " file "]"
//! snippet = { line } [ "\ No newline at end of file" ]
//! ```
//!
//! Each marker is a line of its own; white space around it does not count. A snippet without lines before is a file that
//! is not there yet, or an empty one. The last line of a snippet, as in a diff, says that the file ends without a line
//! feed; where neither snippet says it, the file ends as it did.
//!
//! The form cannot say a link, a file that is no text, or a line that is one of the markers. [`write()`] refuses those.

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
