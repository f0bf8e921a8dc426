//! Content match: finds runs of lines of the hidden solution in what reached the agent.

mod compare;
mod frames;
mod known;
mod patch;
mod requests;
mod settings;
mod solution;
mod tally;
#[cfg(test)]
mod tests;

pub(crate) use compare::compare;
pub use solution::Solution;
