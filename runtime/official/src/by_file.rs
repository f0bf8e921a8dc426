//! FeatureBench: grades test files by their exit statuses. The tests in the log give the pass rate.

use std::collections::BTreeMap;

use proctor_types::{Task, TestGroup};

use crate::{
    OfficialPolicy, OfficialVerdict, PolicyError, StatusGrade, StatusGrades,
    log::LogReader,
    parsers::{StatusMap, parse_with_row_facts},
    registry::row_facts,
    verdict::{format_counts, parse_status},
};

/// One run of the test command on one test file.
#[derive(Debug, Clone)]
pub struct FileRun {
    /// The file's path, or its name if only that is known.
    pub file: String,
    pub log: Vec<u8>,
    /// The exit status. `None` counts as a failure.
    pub exit_status: Option<i32>,
}

impl OfficialPolicy {
    /// Grades the fail-to-pass file's run and the pass-to-pass files' runs.
    ///
    /// The task is resolved if each run exited with zero, even if its log shows failures. The pass
    /// rate counts the tests in the log of the fail-to-pass run, even if that run failed. The
    /// result and the pass rate can therefore disagree.
    ///
    /// # Errors
    ///
    /// The row names an unknown parser.
    pub fn grade_files(
        &self,
        task: &Task,
        fail_to_pass: &FileRun,
        pass_to_pass: &[FileRun],
    ) -> Result<OfficialVerdict, PolicyError> {
        let (parser, row) = (self.parser_for(task)?, row_facts(task));
        let reader = LogReader { policy: self, parser, row_facts: row, test_command: None };
        let read = |run: &FileRun| match reader.decode(&run.log) {
            Ok(log) => {
                parse_with_row_facts(parser, self.parser.edition, &log, row).unwrap_or_default()
            }
            Err(_) => StatusMap::default(),
        };
        let statuses = read(fail_to_pass);
        let f2p = group_printed_tests(&statuses, &self.fail_to_pass);
        let mut p2p = TestGroup::default();
        let mut tests: BTreeMap<_, _> = statuses
            .iter()
            .map(|(name, word)| (name.to_owned(), parse_status(Some(word))))
            .collect();
        for run in runs_read_by_harness(pass_to_pass) {
            let map = read(run);
            let group = group_printed_tests(&map, &self.pass_to_pass);
            p2p.passed.extend(group.passed);
            p2p.failed.extend(group.failed);
            tests
                .extend(map.iter().map(|(name, word)| (name.to_owned(), parse_status(Some(word)))));
        }
        let bad = std::iter::once(fail_to_pass)
            .chain(pass_to_pass)
            .find(|run| run.exit_status != Some(0));
        let why = match bad {
            None => format!(
                "every file exited with 0; {}",
                format_counts(&f2p, statuses.len(), &p2p, p2p.passed.len() + p2p.failed.len())
            ),
            Some(run) => match run.exit_status {
                Some(status) => format!("{} exited with {status}", run.file),
                None => format!("the exit status of {} is unknown", run.file),
            },
        };
        Ok(OfficialVerdict {
            benchmark: self.benchmark.clone(),
            version: self.version.clone(),
            is_resolved: bad.is_none(),
            was_graded: true,
            reason: why,
            pass_rate: rounded_pass_rate(&f2p),
            fail_to_pass: f2p,
            pass_to_pass: p2p,
            tests,
            statuses,
        })
    }
}

/// Yields the runs whose logs the harness reads. The harness names a pass-to-pass log after the
/// file's base name. If two files have the same base name, the harness reads only the last log.
fn runs_read_by_harness(runs: &[FileRun]) -> impl Iterator<Item = &FileRun> {
    let base = |run: &FileRun| run.file.rsplit('/').next().unwrap_or_default().replace(".py", "");
    runs.iter().enumerate().filter_map(move |(index, run)| {
        let again = runs[index + 1..].iter().any(|later| base(later) == base(run));
        (!again).then_some(run)
    })
}

/// Splits the printed tests into passed and failed ones. Every printed test counts as expected.
fn group_printed_tests(map: &StatusMap, status_grades: &StatusGrades) -> TestGroup {
    let mut group = TestGroup::default();
    for (name, word) in map.iter() {
        match status_grades.grade_for(Some(word)) {
            StatusGrade::Pass => group.passed.push(name.to_owned()),
            StatusGrade::Fail => group.failed.push(name.to_owned()),
            StatusGrade::Neither => {}
        }
    }
    group
}

/// Returns the rate rounded to four decimals, ties to even, like Python.
fn rounded_pass_rate(group: &TestGroup) -> f64 {
    let of = group.passed.len() + group.failed.len();
    if of == 0 {
        return 0.0;
    }
    let exact = group.passed.len() as f64 / of as f64;
    format!("{exact:.4}").parse().unwrap_or(exact)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounded_pass_rate_matches_python() {
        let of = |passed: usize, all: usize| {
            rounded_pass_rate(&TestGroup {
                passed: vec![String::new(); passed],
                failed: vec![String::new(); all - passed],
            })
        };
        assert_eq!((of(1, 3), of(1, 32), of(3, 32), of(0, 0)), (0.3333, 0.0312, 0.0938, 0.0));
    }
}
