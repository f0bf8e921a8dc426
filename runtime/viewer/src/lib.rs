//! The viewer shows runs, trials and steps as web pages. It serves them on the loopback interface
//! or writes them to files.

mod dashboard;
mod error;
mod failure_label;
mod finding_links;
mod gap;
pub mod html;
mod index;
mod log;
mod matrix_pages;
mod overview;
mod pages;
mod read;
mod report_page;
mod response_text;
mod results;
mod search;
mod server;
mod side_by_side;
mod static_pages;
mod steps;
mod test_error;
#[cfg(test)]
mod test_run;
mod tool_calls;
mod urls;
mod viewed_run;
mod workspace;

use std::{borrow::Cow, path::Path};

use proctor_record::trial_lookup::{PlannedTrial, planned_trials};

pub use error::ViewError;
pub use index::JournalIndex;
pub use pages::{Page, Pages};
pub use read::{read_labels, read_patch, read_trial, reference_patch};
pub use server::Server;
pub use steps::read_step;

/// A function that removes secrets from the content of a file. The first argument is the file's
/// name.
pub type MaskText<'a> = &'a dyn for<'t> Fn(&Path, &'t [u8]) -> Cow<'t, [u8]>;
