//! Content match: runs of lines of the hidden solution in what came to the agent.

mod frames;
mod known;
mod look;
mod patch;
mod requests;
mod settings;
mod solution;
mod tally;
#[cfg(test)]
mod tests;

pub(crate) use look::look;
pub use solution::Solution;
