//! Reads the results pipe.

use std::collections::BTreeMap;

use hmac::{Hmac, Mac};
use serde::Deserialize;
use sha2::Sha256;

/// The key of the results pipe, known only to the grader and the recorder.
pub(crate) type PipeKey = [u8; 32];

/// One record that the recorder (`python/recorder.py`) wrote.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "a run has one large record, its end")]
pub(crate) enum Record {
    /// The recorder starts pytest.
    Start,
    /// A file could not be collected.
    Collect {
        id: String,
        why: String,
    },
    Begin(BeginRecord),
    Test(TestRecord),
    /// A canary was installed as a copy of a test.
    CanaryLaid {
        number: usize,
        /// The id of the original test.
        what: String,
    },
    /// A canary could not be made from the collected test, or would have taken too long.
    CanaryLeftOut {
        number: usize,
        what: String,
    },
    Canary(CanaryRecord),
    /// A submission imported something from the library that it was supposed to rewrite.
    Origin {
        what: String,
    },
    End(EndRecord),
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct BeginRecord {
    pub collected: Vec<String>,
    /// SHA-256 of each watched file when collection ended.
    pub watched: BTreeMap<String, Option<String>>,
}

/// One phase of one test.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct TestRecord {
    pub id: String,
    /// `setup`, `call`, `teardown` or `subtest`.
    pub when: String,
    pub outcome: String,
    pub xfail: bool,
    /// Whether the recorder itself saw the phase raise an exception. Absent if the recorder did not
    /// see the phase.
    pub raised: Option<bool>,
    /// How often the test has been called so far, to detect plugins that rerun it silently.
    #[serde(default)]
    pub runs: usize,
}

impl CanaryRecord {
    pub(crate) fn as_test(&self, id: &str) -> TestRecord {
        let (when, outcome) = (self.when.clone(), self.outcome.clone());
        let (xfail, raised) = (self.xfail, self.raised);
        TestRecord { id: id.to_owned(), when, outcome, xfail, raised, runs: 1 }
    }
}

/// One phase of one canary.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct CanaryRecord {
    pub number: usize,
    pub when: String,
    pub outcome: String,
    pub xfail: bool,
    pub raised: Option<bool>,
    /// The test's line that raised the exception.
    pub line: Option<usize>,
    /// Whether the exception is of the kind that a failed expectation raises.
    pub expectation: bool,
    /// Whether the run took a branch with a mistake; absent if every run reaches the mistake.
    #[serde(default)]
    pub reached: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct EndRecord {
    pub code: i32,
    /// Number of test records that the recorder sent.
    pub count: usize,
    /// The observations of the `sight` package during the run.
    #[serde(flatten)]
    pub sight: Observations,
}

/// Observations of the interpreter. Each pair contains a name and the file that defines its code.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Observations {
    /// Plugins, and the functions that implement their hooks.
    pub plugins: Vec<(String, String)>,
    /// Changed functions and classes of pytest and unittest, builtins and import hooks.
    pub patched: Vec<(String, String)>,
    /// Test functions that are not defined in their test file.
    pub foreign: Vec<(String, String)>,
    /// Test functions that were replaced after the collection.
    pub swapped: Vec<(String, String)>,
    /// Test folders and the working directory, if they were replaced.
    pub moved: Vec<String>,
    /// Modules of the environment that were imported from elsewhere.
    pub replaced: Vec<(String, String)>,
    /// Test files that the code under test opened, and the file of that code.
    pub readers: Vec<(String, String)>,
    /// Tests that continued after one of their assertions failed.
    pub swallowed: Vec<String>,
    /// Tests that continued although their function raised an uncaught exception. They are only
    /// detected on Python 3.12 or later.
    pub caught: Vec<String>,
    /// Hooks of the recorder that raised an exception.
    pub failed: Vec<String>,
    /// Tests that a forked process ran.
    pub forked: Vec<String>,
    /// Every entry that was ever on the import path.
    pub path: Vec<String>,
    /// SHA-256 of each watched file, once per compilation. `None` if the file changed while it was
    /// compiled.
    pub compiled: BTreeMap<String, Vec<Option<String>>>,
}

/// The content of the results pipe.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Records {
    pub records: Vec<Record>,
    /// Number of lines that the recorder did not write.
    pub garbage_line_count: usize,
    /// The start of the first line that the recorder did not write.
    pub garbage_sample: String,
}

impl Records {
    /// Reads lines of the form `MAC JSON`. Each MAC also covers the previous valid line. As a
    /// result, a foreign line affects no other line, and a dropped record invalidates all records
    /// after it.
    pub(crate) fn read(raw: &[u8], key: &PipeKey, should_authenticate: bool) -> Self {
        let mut records = Self::default();
        let mut last = Vec::new();
        for line in raw.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match parse_record(line, &last, key, should_authenticate) {
                Some((mac, record)) => {
                    last = mac;
                    records.records.push(record);
                }
                None => {
                    if records.garbage_line_count == 0 {
                        let head = &line[..line.len().min(120)];
                        records.garbage_sample = String::from_utf8_lossy(head).into_owned();
                    }
                    records.garbage_line_count += 1;
                }
            }
        }
        records
    }

    pub(crate) fn has_start(&self) -> bool {
        self.records.contains(&Record::Start)
    }

    pub(crate) fn begin_record(&self) -> Option<&BeginRecord> {
        self.records.iter().find_map(|record| match record {
            Record::Begin(begin) => Some(begin),
            _ => None,
        })
    }

    pub(crate) fn end_record(&self) -> Option<&EndRecord> {
        match self.records.last() {
            Some(Record::End(end)) => Some(end),
            _ => None,
        }
    }

    pub(crate) fn test_records(&self) -> impl Iterator<Item = &TestRecord> {
        self.records.iter().filter_map(|record| match record {
            Record::Test(test) => Some(test),
            _ => None,
        })
    }
}

fn parse_record(
    line: &[u8],
    last_mac: &[u8],
    key: &PipeKey,
    should_authenticate: bool,
) -> Option<(Vec<u8>, Record)> {
    let at = line.iter().position(|byte| *byte == b' ')?;
    let (mac, body) = (&line[..at], &line[at + 1..]);
    let mut expected = Hmac::<Sha256>::new_from_slice(key).ok()?;
    expected.update(last_mac);
    expected.update(body);
    if should_authenticate
        && proctor_types::hex(&expected.finalize().into_bytes()).as_bytes() != mac
    {
        return None;
    }
    Some((mac.to_vec(), serde_json::from_slice(body).ok()?))
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// Lines in the recorder's format.
    pub(crate) fn signed_lines(key: &PipeKey, bodies: &[&str]) -> Vec<String> {
        let mut last = String::new();
        let mut lines = Vec::new();
        for body in bodies {
            let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
            mac.update(last.as_bytes());
            mac.update(body.as_bytes());
            last = proctor_types::hex(&mac.finalize().into_bytes());
            lines.push(format!("{last} {body}"));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: PipeKey = [7; 32];
    const COLLECT: &str = r#"{"t":"collect","id":"a.py","outcome":"failed","why":"x"}"#;

    #[test]
    fn foreign_line_is_garbage_and_affects_only_itself() {
        let mut lines = testing::signed_lines(&KEY, &[COLLECT, COLLECT]);
        lines.insert(1, r#"0000 {"t":"test","id":"a","when":"call","outcome":"passed"}"#.into());
        let records = Records::read(lines.join("\n").as_bytes(), &KEY, true);
        assert_eq!((records.records.len(), records.garbage_line_count), (2, 1));
        assert!(records.garbage_sample.starts_with("0000"));
    }

    #[test]
    fn dropped_or_changed_line_is_detected() {
        let lines = testing::signed_lines(&KEY, &[COLLECT, COLLECT, COLLECT]);
        let dropped = format!("{}\n{}", lines[0], lines[2]);
        assert_eq!(Records::read(dropped.as_bytes(), &KEY, true).garbage_line_count, 1);
        let changed = lines[0].replace("a.py", "b.py");
        assert_eq!(Records::read(changed.as_bytes(), &KEY, true).garbage_line_count, 1);
        assert_eq!(
            Records::read(lines.join("\n").as_bytes(), &[8; 32], true).garbage_line_count,
            3
        );
    }
}
