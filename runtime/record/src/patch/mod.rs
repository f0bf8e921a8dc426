//! Patches, computed and applied on the host as data; no git runs anywhere.
//!
//! The format is git's. In short:
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

mod apply;
mod base85;
mod between;
mod binary;
mod change;
mod files;
mod guard;
mod header;
mod hunk;
mod ignored;
mod lines;
mod parse;
mod policy;
mod quote;
mod resolve;
mod reverse;
mod write;

pub use between::{LeftOut, Patch, between};
pub use change::{Change, Current, PatchError};
pub use policy::PatchPolicy;
pub use resolve::{resolve, touched};
pub use reverse::reverse;
