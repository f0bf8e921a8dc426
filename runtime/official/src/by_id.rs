//! Grades test logs for benchmarks that list the expected tests by id.

use std::collections::BTreeMap;

use proctor_types::{Task, TestGroup};

use crate::{
    OfficialPolicy, OfficialVerdict, PolicyError, StatusGrade, StatusGrades, Subject,
    log::{LogReader, ParseOutcome},
    parsers::StatusMap,
    policy::LogPart,
    registry::row_facts,
    verdict::{format_counts, parse_status},
};

impl OfficialPolicy {
    /// Grades a log of a task's tests as the benchmark's harness would.
    ///
    /// # Errors
    ///
    /// The policy cannot grade the task: it has no parser or test command, or it expects files
    /// instead of test ids.
    pub fn grade_log(&self, task: &Task, log: &[u8]) -> Result<OfficialVerdict, PolicyError> {
        if self.subject == Subject::File {
            return Err(PolicyError {
                message: format!("{} grades the exit status of each file", self.benchmark),
                hint: "pass the folder that contains the attempt's logs".into(),
            });
        }
        let test_command = match self.log.part {
            LogPart::AfterTestCommand => Some(self.test_command_for(task)?),
            _ => None,
        };
        let (parser, row) = (self.parser_for(task)?, row_facts(task));
        let reader = LogReader { policy: self, parser, row_facts: row, test_command };
        Ok(self.grade_outcome(task, reader.read(log)))
    }

    /// Returns the verdict for a patch whose tests were not run, because the patch is empty or
    /// could not be applied.
    pub fn verdict_without_tests(&self, task: &Task, reason: &str) -> OfficialVerdict {
        match self.subject {
            Subject::Id => self.grade_outcome(task, ParseOutcome::NotGraded(reason.to_owned())),
            Subject::File => self.unresolved_verdict(task, reason),
        }
    }

    fn grade_outcome(&self, task: &Task, outcome: ParseOutcome) -> OfficialVerdict {
        let (map, refused) = match outcome {
            ParseOutcome::Statuses(map) => (map, None),
            ParseOutcome::NotGraded(why) => (StatusMap::default(), Some(why)),
            ParseOutcome::Crashed(why) => (StatusMap::default(), Some(why)),
        };
        if let Some(why) = refused {
            return self.unresolved_verdict(task, &why);
        }
        let f2p = self.group_expected_tests(task, &task.fail_to_pass, &map, &self.fail_to_pass);
        let p2p = self.group_expected_tests(task, &task.pass_to_pass, &map, &self.pass_to_pass);
        let resolved = f2p.failed.is_empty()
            && p2p.failed.is_empty()
            && !(self.needs_success && f2p.passed.is_empty());
        let expected = task.fail_to_pass.len();
        let mut why = format_counts(&f2p, task.fail_to_pass.len(), &p2p, task.pass_to_pass.len());
        if let Some(first) = f2p.failed.iter().chain(&p2p.failed).next() {
            let word = map.get(first).unwrap_or("missing");
            why.push_str(&format!("; first test that did not pass: {first} ({word})"));
        }
        let tests: BTreeMap<_, _> = task
            .fail_to_pass
            .iter()
            .chain(&task.pass_to_pass)
            .map(|id| {
                (
                    id.clone(),
                    parse_status(self.find_matching_name(id, &map).and_then(|key| map.get(key))),
                )
            })
            .collect();
        OfficialVerdict {
            benchmark: self.benchmark.clone(),
            version: self.version.clone(),
            is_resolved: resolved,
            was_graded: true,
            reason: why,
            pass_rate: if expected == 0 { 0.0 } else { f2p.passed.len() as f64 / expected as f64 },
            fail_to_pass: f2p,
            pass_to_pass: p2p,
            tests,
            statuses: map,
        }
    }

    fn group_expected_tests(
        &self,
        task: &Task,
        ids: &[String],
        map: &StatusMap,
        status_grades: &StatusGrades,
    ) -> TestGroup {
        let kind = task.details().and_then(|details| details.eval_type.non_empty_text());
        let fail_only = kind == Some("fail_only");
        let lenient = self.fail_only.as_ref().filter(|_| fail_only);
        let mut group = TestGroup::default();
        for id in ids {
            let standing = match lenient {
                // In these rows, expected ids are never treated as truncated.
                Some(standings) => standings.grade_for(map.get(id)),
                None => status_grades
                    .grade_for(self.find_matching_name(id, map).and_then(|key| map.get(key))),
            };
            match standing {
                StatusGrade::Pass => group.passed.push(id.clone()),
                StatusGrade::Fail => group.failed.push(id.clone()),
                StatusGrade::Neither => {}
            }
        }
        group
    }

    /// Returns the test name in `map` to which an expected id refers.
    fn find_matching_name<'m>(&self, id: &'m str, map: &'m StatusMap) -> Option<&'m str> {
        if map.get(id).is_some() {
            return Some(id);
        }
        let count = |bracket| id.matches(bracket).count();
        if !self.truncated_ids || count('[') <= count(']') {
            return None;
        }
        let alike: Vec<(&str, &str)> =
            map.iter().filter(|(name, _)| name.starts_with(id)).collect();
        let passing = |word: &str| matches!(word, "PASSED" | "XFAIL");
        let (first, word) = *alike.first()?;
        alike.iter().all(|(_, other)| passing(other) == passing(word)).then_some(first)
    }
}
