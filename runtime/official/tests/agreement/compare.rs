//! Compares one result of an official grader with Proctor's.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead, BufReader},
    path::Path,
};

use proctor_official::{
    FileRun, OfficialPolicy, OfficialVerdict,
    parsers::{Edition, ParserName, RowFacts, parse_with_row_facts},
};
use proctor_types::{Task, TestGroup};
use serde::Deserialize;

/// A line from `official.py`.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum OfficialResult {
    Statuses {
        log: String,
        parser: ParserName,
        edition: Edition,
        /// Absent if the parser raised an exception.
        statuses: Option<Vec<(String, String)>>,
        /// The fields of the row that the parser received.
        row: Option<Row>,
    },
    Verdict {
        log: String,
        task: Box<Task>,
        resolved: bool,
        /// Four lists of tests: F2P passed, F2P failed, P2P passed, P2P failed. Absent if the
        /// harness did not grade the log.
        groups: Option<[Vec<String>; 4]>,
    },
    Files {
        log: String,
        task: Box<Task>,
        exit: i32,
        p2p_exit: i32,
        resolved: bool,
        pass_rate: f64,
        groups: Option<[Vec<String>; 4]>,
    },
}

#[derive(Debug, Deserialize)]
struct Row {
    id: String,
    version: Option<String>,
}

/// Counts how often the graders agree.
#[derive(Default)]
pub struct Tally {
    logs: BTreeSet<String>,
    /// Logs of runners for languages other than Python, and the parsers that read them.
    language_logs: BTreeSet<String>,
    parsers: BTreeSet<&'static str>,
    map_count: usize,
    entry_count: usize,
    /// The number of verdicts and of resolved verdicts, by benchmark and version.
    verdicts: BTreeMap<String, (usize, usize)>,
    differences: Vec<String>,
    texts: BTreeMap<String, Vec<u8>>,
}

impl Tally {
    pub fn compare_results(&mut self, logs: &Path, results: &Path) {
        for line in BufReader::new(fs::File::open(results).unwrap()).lines() {
            let line = line.unwrap();
            let found: OfficialResult = serde_json::from_str(&line).unwrap();
            let (OfficialResult::Statuses { log, .. }
            | OfficialResult::Verdict { log, .. }
            | OfficialResult::Files { log, .. }) = &found;
            let stem = log.rsplit_once('.').map_or(log.as_str(), |(stem, _)| stem);
            self.logs.insert(stem.to_owned());
            let bytes = self
                .texts
                .entry(log.clone())
                .or_insert_with(|| fs::read(logs.join(log)).unwrap())
                .clone();
            if let Err(what) = self.compare_result(found, &bytes) {
                self.differences.push(what);
            }
        }
    }

    fn compare_result(&mut self, result: OfficialResult, bytes: &[u8]) -> Result<(), String> {
        match result {
            OfficialResult::Statuses { log, parser, edition, statuses, row } => {
                let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n").replace('\r', "\n");
                let facts = row.as_ref().map_or_else(RowFacts::default, |row| RowFacts {
                    id: &row.id,
                    version: row.version.as_deref(),
                });
                if row.is_some() {
                    self.language_logs.insert(log.clone());
                    self.parsers.insert(parser.name());
                }
                let ours = parse_with_row_facts(parser, edition, &text, facts).ok().map(|map| {
                    map.iter().map(|(name, word)| (name.to_owned(), word.to_owned())).collect()
                });
                self.map_count += 1;
                self.entry_count += statuses.as_ref().map_or(0, Vec::len);
                let place = format!("{log}: {parser:?} of {edition:?}, row {row:?}");
                expect_equal(&place, &ours, &statuses)
            }
            OfficialResult::Verdict { log, task, resolved, groups } => {
                let policy = OfficialPolicy::for_task(&task).unwrap().unwrap();
                let ours = policy.grade_log(&task, bytes).unwrap();
                self.count_verdict(&ours);
                let place =
                    format!("{log}: {} {} of {:?}", ours.benchmark, ours.version, task.repo);
                expect_equal(&place, &ours.is_resolved, &resolved)?;
                expect_equal(&place, &sorted_groups(&ours), &groups)
            }
            OfficialResult::Files { log, task, exit, p2p_exit, resolved, pass_rate, groups } => {
                let policy = OfficialPolicy::for_task(&task).unwrap().unwrap();
                let run = |file: &str, exit| FileRun {
                    file: file.to_owned(),
                    log: bytes.to_vec(),
                    exit_status: Some(exit),
                };
                let p2p = [run(&task.pass_to_pass[0], p2p_exit)];
                let ours =
                    policy.grade_files(&task, &run(&task.fail_to_pass[0], exit), &p2p).unwrap();
                self.count_verdict(&ours);
                let place = format!("{log}: {} of {:?}", ours.benchmark, task.repo);
                expect_equal(&place, &ours.is_resolved, &resolved)?;
                expect_equal(&place, &ours.pass_rate, &pass_rate)?;
                expect_equal(&place, &sorted_groups(&ours), &groups)
            }
        }
    }

    fn count_verdict(&mut self, verdict: &OfficialVerdict) {
        let count =
            self.verdicts.entry(format!("{} {}", verdict.benchmark, verdict.version)).or_default();
        count.0 += 1;
        count.1 += usize::from(verdict.is_resolved);
    }

    pub fn log_count(&self) -> usize {
        self.logs.len()
    }

    /// Number of logs from runners for other languages, and number of parsers that read these logs.
    pub fn language_counts(&self) -> (usize, usize) {
        (self.language_logs.len(), self.parsers.len())
    }

    pub fn summary(&self) -> String {
        let verdicts: Vec<String> = self
            .verdicts
            .iter()
            .map(|(name, (all, resolved))| format!("{name}: {all} ({resolved} resolved)"))
            .collect();
        format!(
            "{} logs; {} maps of statuses with {} entries; verdicts of {}",
            self.logs.len(),
            self.map_count,
            self.entry_count,
            verdicts.join(", ")
        )
    }

    /// Also asserts that both resolved and unresolved verdicts occurred, because two graders that
    /// always reject agree trivially.
    pub fn assert_agreement(&self) {
        let shown: Vec<&str> = self.differences.iter().take(10).map(String::as_str).collect();
        assert!(
            self.differences.is_empty(),
            "{} differences, including:\n{}",
            self.differences.len(),
            shown.join("\n")
        );
        for (name, (all, resolved)) in &self.verdicts {
            assert!(*resolved > 0 && resolved < all, "{name}: {resolved} of {all} resolved");
        }
        assert_eq!(self.verdicts.len(), 7, "{:?}", self.verdicts.keys());
    }
}

fn expect_equal<T: PartialEq + std::fmt::Debug>(
    context: &str,
    actual: &T,
    expected: &T,
) -> Result<(), String> {
    if actual == expected {
        return Ok(());
    }
    Err(format!("{context}\n  ours   {actual:?}\n  theirs {expected:?}"))
}

fn sorted_groups(verdict: &OfficialVerdict) -> Option<[Vec<String>; 4]> {
    let sorted = |ids: &[String]| {
        let set: BTreeSet<&String> = ids.iter().collect();
        set.into_iter().cloned().collect::<Vec<_>>()
    };
    let both = |group: &TestGroup| (sorted(&group.passed), sorted(&group.failed));
    let (f2p, p2p) = (both(&verdict.fail_to_pass), both(&verdict.pass_to_pass));
    verdict.was_graded.then_some([f2p.0, f2p.1, p2p.0, p2p.1])
}
