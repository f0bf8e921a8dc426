//! Imports trajectories of other tools as trials. Everything outside this directory exports.

mod atif;
mod events;
mod mini;
mod source;
mod swe_agent;

pub use source::{BadSource, Imported, read_trajectory, trajectory_format};
