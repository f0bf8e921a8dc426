//! The result of grading a patch.

use proctor_types::Verdict;

/// The result of grading a patch.
#[derive(Debug, Clone)]
pub struct GradingResult {
    pub verdict: Verdict,
    /// Output of the test run.
    pub log: Vec<u8>,
    /// The raw content of the results pipe.
    pub raw_results: Vec<u8>,
}
