//! Content match: finds runs of lines from the hidden solution in content that reached the agent.

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

pub(crate) use compare::compare_content;
pub use solution::Solution;
