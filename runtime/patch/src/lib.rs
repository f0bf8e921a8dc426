//! Parses, makes and applies patches as data on the host, without running git.
//!
//! [`Patch::read`] is the only parser. It reads as much as it can. Applying, reversing and listing
//! the touched paths fail with the first error in the text. The format is git's. In short:
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
//! A patch applies as with `git apply`: fuzz 0, offsets allowed, all files or none.
//! [`Patch::resolve_parts`] continues where Git or benchmark harnesses would: it leaves out
//! submodules and binary content that is missing in the patch.

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
pub use change::{Change, Current, PatchError, Resolved};
pub use difference::SideContent;
pub use gold::gold_of;
pub use guard::{check_path, folders};
pub use patch::{
    Body, Data, FilePatch, How, Hunk, Line, MODE_EXECUTABLE, MODE_FILE, MODE_LINK, Patch, Side,
};
pub use proctor_wire::RawPath;
