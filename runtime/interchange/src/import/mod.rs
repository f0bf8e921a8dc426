//! Imports other tools' trajectories as trials. The code outside this directory exports.

mod atif;
mod events;
mod mini;
mod source;
mod swe_agent;

pub use source::{ImportError, ImportedTrial, detect_format, read_trajectory};
