//! Compares independent sources for one run: the exit status, the runner's own totals, and the
//! results in the log.
//! Every reader fills in what its runner reports. If the sources disagree, part of the run is
//! missing from the log, or the log shows results of something else.

use proctor_types::count_with_noun;

/// The counts that independent sources report for one log. Values that are `None` are not compared.
#[derive(Debug, Default)]
pub(super) struct RunCounts {
    /// The exit status of the runner's process.
    pub exit_status: Option<i64>,
    /// Whether the last run in the log reports success.
    pub reported_success: Option<bool>,
    /// Number of failures and errors according to the runner.
    pub runner_failure_count: Option<usize>,
    /// Minimum number of failures and errors that the log shows.
    pub min_shown_failures: usize,
    /// Maximum number of failures and errors that the log shows. A failure may be printed in two
    /// places.
    pub max_shown_failures: usize,
    /// Maximum number of passed tests according to the runner.
    pub max_passed: Option<usize>,
    /// Number of tests that were read as passed.
    pub passed_count: usize,
}

impl RunCounts {
    /// Returns one sentence for each disagreement.
    pub(super) fn disagreements(&self) -> Vec<String> {
        let mut found = Vec::new();
        if let Some(exit) = self.exit_status {
            // At the end of a run, test runners exit with 0 or 1. Any other status means a signal,
            // an interruption or an internal error, and failed tests don't explain it.
            if !matches!(exit, 0 | 1) {
                found.push(format!("exit status {exit} means that the run did not complete"));
            } else if let Some(succeeded) = self.reported_success
                && (exit == 0) != succeeded
            {
                let said = match self.runner_failure_count {
                    Some(counted) => count_with_noun(counted, "failure"),
                    None if succeeded => "the run reports success".to_owned(),
                    None => "the run reports a failure".to_owned(),
                };
                found.push(format!("exit status {exit}, but {said}"));
            }
        }
        if let Some(counted) = self.runner_failure_count {
            if counted > self.max_shown_failures {
                let shown = self.max_shown_failures;
                found.push(format!("failures counted by the runner: {counted}, shown: {shown}"));
            }
            if counted < self.min_shown_failures {
                let shown = self.min_shown_failures;
                found.push(format!("failures shown: {shown}, counted by the runner: {counted}"));
            }
        }
        if let Some(max_passed) =
            self.max_passed.filter(|max_passed| self.passed_count > *max_passed)
        {
            let passed = self.passed_count;
            found
                .push(format!("passed tests shown: {passed}, counted by the runner: {max_passed}"));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disagreements_accept_consistent_counts() {
        for (exit, succeeded, counted) in
            [(Some(0), true, 0), (Some(1), false, 2), (None, false, 2), (None, true, 0)]
        {
            let account = RunCounts {
                exit_status: exit,
                reported_success: Some(succeeded),
                runner_failure_count: Some(counted),
                min_shown_failures: counted,
                max_shown_failures: counted,
                max_passed: Some(3),
                passed_count: 3,
            };
            assert_eq!(account.disagreements(), Vec::<String>::new());
        }
        assert_eq!(RunCounts::default().disagreements(), Vec::<String>::new());
    }

    #[test]
    fn disagreements_report_each_inconsistent_pair() {
        let good = || RunCounts {
            reported_success: Some(true),
            runner_failure_count: Some(0),
            ..RunCounts::default()
        };
        let of = |account: RunCounts| account.disagreements().join("; ");
        for exit in [-9, 2, 5, 137, 139] {
            let said = of(RunCounts { exit_status: Some(exit), ..good() });
            assert_eq!(said, format!("exit status {exit} means that the run did not complete"));
        }
        assert_eq!(
            of(RunCounts { exit_status: Some(1), ..good() }),
            "exit status 1, but 0 failures"
        );
        let failed = RunCounts {
            exit_status: Some(0),
            reported_success: Some(false),
            ..RunCounts::default()
        };
        assert_eq!(of(failed), "exit status 0, but the run reports a failure");
        let hidden = RunCounts {
            runner_failure_count: Some(3),
            max_shown_failures: 2,
            ..RunCounts::default()
        };
        assert_eq!(of(hidden), "failures counted by the runner: 3, shown: 2");
        let shown = RunCounts { min_shown_failures: 1, max_shown_failures: 1, ..good() };
        assert_eq!(of(shown), "failures shown: 1, counted by the runner: 0");
        let many = RunCounts { max_passed: Some(1), passed_count: 2, ..RunCounts::default() };
        assert_eq!(of(many), "passed tests shown: 2, counted by the runner: 1");
    }
}
