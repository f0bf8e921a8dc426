//! Parses, creates and applies patches on the host, as data and without running Git.
//!
//! [`Patch::parse`] is the only parser. It parses as much as possible. Functions that need the whole
//! patch (apply, reverse, list touched paths) fail with the first error in the text. In short, the
//! format is Git's:
//!
//! ```text
//! patch   = { junk | file }
//! file    = "diff --git " name " " name { extended } [ body ]  |  "--- " name "+++ " name hunks
//! extended= mode, rename, copy, similarity and index lines
//! body    = [ "--- " name "+++ " name ] hunks  |  "GIT binary patch" data [ data ]
//! hunk    = "@@ -" start[,count] " +" start[,count] " @@" section { (" " | "-" | "+") line }
//! data    = ("literal" | "delta") size, base85 of zlib, an empty line
//! ```
//!
//! Patches apply as with `git apply`: no fuzz, offsets allowed, all files or none.
//! [`Patch::resolve_lenient`] is more lenient, like benchmark harnesses: it skips submodules and
//! binary content that is missing from the patch.

mod apply;
mod base85;
mod binary;
mod change;
mod difference;
mod gold;
mod guard;
mod header;
mod hunk;
mod lines;
mod parse;
mod patch;
mod quote;
mod resolve;
mod reverse;
mod write;

pub use binary::is_binary;
pub use change::{Change, CurrentFile, PatchError, ResolvedPatch};
pub use difference::SideContent;
pub use gold::gold_patch;
pub use guard::{check_path, parent_directories};
pub use patch::{
    BinaryData, Body, ChangeKind, FilePatch, Hunk, Line, MODE_EXECUTABLE, MODE_FILE, MODE_LINK,
    Patch, Side,
};
pub use proctor_wire::RawPath;
