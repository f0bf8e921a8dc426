//! Imports other tools' trajectories as trials. The code outside this directory exports.

mod atif;
mod events;
mod mini;
mod source;
mod swe_agent;

pub use source::{BadSource, Imported, read_trajectory, trajectory_format};
