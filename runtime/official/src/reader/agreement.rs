//! Compares independent sources for one run: the exit status, the runner's own totals, and the
//! results in the log.
//! Every reader fills in what its runner reports. If the sources disagree, part of the run is
//! missing from the log, or the log shows results of something else.

use proctor_types::plural;

/// What the sources for one log report. Values that are `None` are not compared.
#[derive(Debug, Default)]
pub(super) struct RunCounts {
    /// The exit status of the runner's process.
    pub exit: Option<i64>,
    /// Whether the last run in the log reports success.
    pub succeeded: Option<bool>,
    /// Number of failures and errors according to the runner.
    pub counted: Option<usize>,
    /// Minimum number of failures and errors that the log shows.
    pub shown_min: usize,
    /// Maximum number of failures and errors that the log shows. A failure may be printed in two
    /// places.
    pub shown_max: usize,
    /// Maximum number of passed tests according to the runner.
    pub max_passed: Option<usize>,
    /// Number of tests that were read as passed.
    pub passed: usize,
}

impl RunCounts {
    /// Returns one sentence for each disagreement.
    pub(super) fn disagreements(&self) -> Vec<String> {
        let mut found = Vec::new();
        if let Some(exit) = self.exit {
            // At the end of a run, test runners exit with 0 or 1. Any other status means a signal,
            // an interruption or an internal error, and failed tests don't explain it.
            if !matches!(exit, 0 | 1) {
                found.push(format!("exit status {exit} means that the run did not complete"));
            } else if let Some(succeeded) = self.succeeded
                && (exit == 0) != succeeded
            {
                let said = match self.counted {
                    Some(counted) => plural(counted, "failure"),
                    None if succeeded => "the run reports success".to_owned(),
                    None => "the run reports a failure".to_owned(),
                };
                found.push(format!("exit status {exit}, but {said}"));
            }
        }
        if let Some(counted) = self.counted {
            if counted > self.shown_max {
                let shown = self.shown_max;
                found.push(format!("failures counted by the runner: {counted}, shown: {shown}"));
            }
            if counted < self.shown_min {
                let shown = self.shown_min;
                found.push(format!("failures shown: {shown}, counted by the runner: {counted}"));
            }
        }
        if let Some(max_passed) = self.max_passed.filter(|max_passed| self.passed > *max_passed) {
            let passed = self.passed;
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
                exit,
                succeeded: Some(succeeded),
                counted: Some(counted),
                shown_min: counted,
                shown_max: counted,
                max_passed: Some(3),
                passed: 3,
            };
            assert_eq!(account.disagreements(), Vec::<String>::new());
        }
        assert_eq!(RunCounts::default().disagreements(), Vec::<String>::new());
    }

    #[test]
    fn disagreements_report_each_inconsistent_pair() {
        let good = || RunCounts { succeeded: Some(true), counted: Some(0), ..RunCounts::default() };
        let of = |account: RunCounts| account.disagreements().join("; ");
        for exit in [-9, 2, 5, 137, 139] {
            let said = of(RunCounts { exit: Some(exit), ..good() });
            assert_eq!(said, format!("exit status {exit} means that the run did not complete"));
        }
        assert_eq!(of(RunCounts { exit: Some(1), ..good() }), "exit status 1, but 0 failures");
        let failed = RunCounts { exit: Some(0), succeeded: Some(false), ..RunCounts::default() };
        assert_eq!(of(failed), "exit status 0, but the run reports a failure");
        let hidden = RunCounts { counted: Some(3), shown_max: 2, ..RunCounts::default() };
        assert_eq!(of(hidden), "failures counted by the runner: 3, shown: 2");
        let shown = RunCounts { shown_min: 1, shown_max: 1, ..good() };
        assert_eq!(of(shown), "failures shown: 1, counted by the runner: 0");
        let many = RunCounts { max_passed: Some(1), passed: 2, ..RunCounts::default() };
        assert_eq!(of(many), "passed tests shown: 2, counted by the runner: 1");
    }
}
