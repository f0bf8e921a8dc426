//! Grades benchmarks that expect tests by their ids.

use std::collections::BTreeMap;

use proctor_types::{Task, TestGroup};

use crate::{
    Official, OfficialPolicy, PolicyError, Standing, Standings, Subject,
    log::{LogReader, Reading},
    parsers::StatusMap,
    policy::Part,
    registry::row_facts,
    verdict::{counted, status_of},
};

impl OfficialPolicy {
    /// Grades the log of one run of a task's tests as the benchmark's harness would.
    ///
    /// # Errors
    ///
    /// The policy cannot grade the task: it has no parser or test command, or it expects files
    /// instead of test ids.
    pub fn grade_log(&self, task: &Task, log: &[u8]) -> Result<Official, PolicyError> {
        if self.subject == Subject::File {
            return Err(PolicyError {
                what: format!("{} grades the exit status of each file", self.benchmark),
                hint: "pass the folder with the attempt's logs".into(),
            });
        }
        let test_command = match self.log.part {
            Part::AfterTestCommand => Some(self.test_command_of(task)?),
            _ => None,
        };
        let (parser, row) = (self.parser_of(task)?, row_facts(task));
        let reader = LogReader { policy: self, parser, row, test_command };
        Ok(self.judge(task, reader.read(log)))
    }

    /// Returns the verdict for a run without tests: the patch is empty or was not applied.
    pub fn not_run(&self, task: &Task, why: &str) -> Official {
        match self.subject {
            Subject::Id => self.judge(task, Reading::NotGraded(why.to_owned())),
            Subject::File => self.not_resolved(task, why),
        }
    }

    fn judge(&self, task: &Task, reading: Reading) -> Official {
        let (map, refused) = match reading {
            Reading::Statuses(map) => (map, None),
            Reading::NotGraded(why) => (StatusMap::default(), Some(why)),
            Reading::Crashed(why) => (StatusMap::default(), Some(why)),
        };
        if let Some(why) = refused {
            return self.not_resolved(task, &why);
        }
        let f2p = self.group(task, &task.fail_to_pass, &map, &self.fail_to_pass);
        let p2p = self.group(task, &task.pass_to_pass, &map, &self.pass_to_pass);
        let resolved = f2p.failed.is_empty()
            && p2p.failed.is_empty()
            && !(self.needs_success && f2p.passed.is_empty());
        let expected = task.fail_to_pass.len();
        let mut why = counted(&f2p, task.fail_to_pass.len(), &p2p, task.pass_to_pass.len());
        if let Some(first) = f2p.failed.iter().chain(&p2p.failed).next() {
            let word = map.get(first).unwrap_or("missing");
            why.push_str(&format!("; first test that did not pass: {first} ({word})"));
        }
        let tests: BTreeMap<_, _> = task
            .fail_to_pass
            .iter()
            .chain(&task.pass_to_pass)
            .map(|id| (id.clone(), status_of(self.key(id, &map).and_then(|key| map.get(key)))))
            .collect();
        Official {
            benchmark: self.benchmark.clone(),
            version: self.version.clone(),
            resolved,
            graded: true,
            why,
            passed_rate: if expected == 0 {
                0.0
            } else {
                f2p.passed.len() as f64 / expected as f64
            },
            fail_to_pass: f2p,
            pass_to_pass: p2p,
            tests,
            statuses: map,
        }
    }

    fn group(
        &self,
        task: &Task,
        ids: &[String],
        map: &StatusMap,
        standings: &Standings,
    ) -> TestGroup {
        let kind = task.details().and_then(|details| details.eval_type.text());
        let fail_only = kind == Some("fail_only");
        let lenient = self.fail_only.as_ref().filter(|_| fail_only);
        let mut group = TestGroup::default();
        for id in ids {
            let standing = match lenient {
                // Here, ids are never treated as truncated.
                Some(standings) => standings.of(map.get(id)),
                None => standings.of(self.key(id, map).and_then(|key| map.get(key))),
            };
            match standing {
                Standing::Pass => group.passed.push(id.clone()),
                Standing::Fail => group.failed.push(id.clone()),
                Standing::Neither => {}
            }
        }
        group
    }

    /// Returns the name in the map that an expected id refers to.
    fn key<'m>(&self, id: &'m str, map: &'m StatusMap) -> Option<&'m str> {
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
