//! Runs the tests in other files without the removed code. These tests must still pass.

use proctor_types::TestStatus;

use super::{context::CandidateContext, outcome::StopReason, removal::Removal};
use crate::freeze::run_masked_tests;

impl CandidateContext<'_> {
    /// Runs the other files' tests once with the mask applied. The inner error contains the failed
    /// tests and the output of the run.
    pub(super) async fn run_other_tests(
        &self,
        file: &str,
        removal: &Removal,
    ) -> Result<Result<(), (String, String)>, StopReason> {
        let files: Vec<&String> =
            removal.other_files.files.iter().filter(|other| *other != file).collect();
        let ids = |file: &String| self.suite.steady.get(file).cloned().unwrap_or_default();
        let other: Vec<String> = files.iter().flat_map(|file| ids(file)).collect();
        let task = self.task_from_removal(file, removal, String::new());
        let run = run_masked_tests(
            self.backend,
            &self.prepared_environment,
            &task,
            &self.test_plan(&task, other.clone()),
        )
        .await?;
        let failed: Vec<&String> =
            other.iter().filter(|id| run.status(id) != TestStatus::Passed).collect();
        if failed.is_empty() {
            return Ok(Ok(()));
        }
        let shown: Vec<&str> = failed.iter().take(3).map(|id| id.as_str()).collect();
        let more = failed.len().saturating_sub(shown.len());
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let mut log = String::from_utf8_lossy(&run.log).into_owned();
        for why in run.collect_errors.values() {
            log.push_str(why);
        }
        Ok(Err((format!("{}{more}", shown.join(", ")), log)))
    }
}
