//! Trajectories that others wrote, as trials. The other way round is everything beside this folder.

mod atif;
mod events;
mod mini;
mod source;
mod swe_agent;

pub use source::{BadSource, Imported, read_trajectory, trajectory_format};
