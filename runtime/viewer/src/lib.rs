//! The viewer: shows runs, trials and steps as pages for people. Pages are served on loopback or
//! written as files.

mod beside;
mod error;
pub mod html;
mod index;
mod log;
mod overview;
mod pages;
mod place;
mod read;
mod results;
mod search;
mod server;
mod shown;
mod statics;
mod steps;
mod words;
mod workspace;

use std::{borrow::Cow, path::Path};

use proctor_record::find::{Found, planned};

pub use error::ViewError;
pub use index::Index;
pub use pages::{Page, Pages};
pub use read::{gold_of, labels_of, patch_of, trial};
pub use server::Server;
pub use steps::step;

/// Removes secrets from the text of a file. Receives the file's name.
pub type MaskText<'a> = &'a dyn for<'t> Fn(&Path, &'t [u8]) -> Cow<'t, [u8]>;
