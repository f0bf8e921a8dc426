//! Imports other tools' trajectories as trials. The modules next to this one export trials.

mod atif;
mod error;
mod events;
mod imported_trial;
mod json;
mod mini;
mod source;
mod swe_agent;

pub use error::ImportError;
pub use imported_trial::ImportedTrial;
pub use source::{detect_format, read_trajectory};
