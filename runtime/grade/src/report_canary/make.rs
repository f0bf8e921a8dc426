//! Chooses mistakes, from the pristine test files and the report of the run that counts.

use std::collections::{BTreeMap, BTreeSet};

use proctor_official::reader::Report;
use proctor_patch::Current;
use proctor_types::{Fault, Task, TestStatus, sha256_hex};

use super::{
    Language, ReportCanaryRules,
    found::{FoundTest, Mistake},
    javascript,
    matches::fit,
    rust,
};
use crate::{
    canary::{Kind, shown},
    policy::{CanaryLimits, Policy},
    pristine::Pristine,
};

/// The mistakes of one run.
#[derive(Debug, Default)]
pub(crate) struct ReportCanaries {
    pub list: Vec<ReportCanary>,
    /// Whether any fail-to-pass test compares values, and the patch may have changed how.
    pub compares: bool,
    /// The files with their mistakes, by escaped path.
    pub files: BTreeMap<String, Current>,
    /// Expected tests that fail if a test within them does.
    pub around: BTreeSet<String>,
}

/// A test that must fail.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReportCanary {
    /// The expected id.
    pub id: String,
    pub kind: Kind,
    pub is_certain: bool,
    pub is_fail_to_pass: bool,
    /// Expected tests of the same file without a mistake.
    pub beside: Vec<String>,
    /// The test, the place, the original text and its replacement.
    pub what: String,
}

struct TestFile<'a> {
    path: &'a str,
    text: &'a str,
    mode: u32,
    language: Language,
    tests: Vec<FoundTest>,
}

/// An expected test, found in a file.
#[derive(Clone, Copy)]
struct Place<'a> {
    id: &'a str,
    file: usize,
    test: usize,
}

/// A test with its best mistake.
struct Candidate<'a> {
    place: Place<'a>,
    mistake: Mistake,
}

/// Best first: what an object that agrees with everything passes, what certainly fails, and by
/// chance.
fn rank(mistake: &Mistake, seed: &str, name: &str) -> (bool, bool, Kind, String) {
    let Mistake { kind, is_certain, span, now, .. } = mistake;
    let name = format!("{seed}:{name}:{}:{}:{now}", span.0, span.1);
    let chance = sha256_hex(name.as_bytes());
    (!kind.tries_agreement(), !is_certain, *kind, chance)
}

/// Makes the canaries of passed tests. `None`: no file of the tests is in a language that has
/// canaries. `apart` are tests that do not count, and `patch` is what is graded.
pub(crate) fn make(
    task: &Task,
    pristine: &Pristine,
    report: &Report,
    tests: &BTreeMap<String, TestStatus>,
    (patch, apart): (&[u8], &BTreeSet<String>),
) -> Result<Option<ReportCanaries>, Fault> {
    let policy = Policy::get()?;
    let rules = &policy.report.canaries;
    let files = files(pristine, rules);
    if files.is_empty() {
        return Ok(None);
    }
    let may_agree = rust::may_agree(patch, &rules.rust);
    let (limits, seed) = (&policy.canaries, task.digest());
    let maker = Maker { rules, limits, files, report, may_agree, seed };
    let passed = |ids: &[String]| -> Vec<String> {
        let counts =
            |id: &&String| !apart.contains(*id) && tests.get(*id) == Some(&TestStatus::Passed);
        ids.iter().filter(counts).cloned().collect()
    };
    Ok(Some(maker.made(&passed(&task.fail_to_pass), &passed(&task.pass_to_pass))))
}

fn files<'a>(pristine: &'a Pristine, rules: &ReportCanaryRules) -> Vec<TestFile<'a>> {
    let read = |(path, current): (&'a String, &'a Current)| {
        let language = rules.language_of(path)?;
        let Current::File { bytes, mode } = current else { return None };
        let text = std::str::from_utf8(bytes).ok()?;
        let tests = match language {
            Language::JavaScript => javascript::tests(text, &rules.javascript),
            Language::Rust => rust::tests(text, &rules.rust),
        };
        Some(TestFile { path, text, mode: *mode, language, tests })
    };
    pristine.files.iter().filter_map(read).collect()
}

struct Maker<'a> {
    rules: &'a ReportCanaryRules,
    limits: &'a CanaryLimits,
    files: Vec<TestFile<'a>>,
    report: &'a Report,
    /// Whether the patch may change what a comparison of Rust does.
    may_agree: bool,
    /// The same each time: gold shows which canaries cannot fail.
    seed: String,
}

impl Maker<'_> {
    fn made(&self, fail_to_pass: &[String], pass_to_pass: &[String]) -> ReportCanaries {
        let mut canaries = ReportCanaries::default();
        let mut edits: BTreeMap<usize, Vec<Mistake>> = BTreeMap::new();
        let mut found: Vec<Place<'_>> = Vec::new();
        // One test stays as it is, if there are several: code that sometimes behaves shows there.
        let few = fail_to_pass.len().saturating_sub(1).max(1);
        let groups = [
            (fail_to_pass, self.limits.fail_to_pass.min(few), true),
            (pass_to_pass, self.limits.pass_to_pass, false),
        ];
        for (ids, limit, is_fail_to_pass) in groups {
            let places = self.places(ids);
            let compares = |place: &Place<'_>| {
                let file = &self.files[place.file];
                let is_fixed = file.language == Language::Rust && !self.may_agree;
                file.tests[place.test].compares && !is_fixed
            };
            canaries.compares |= is_fail_to_pass && places.iter().any(compares);
            for candidate in self.candidates(&places).into_iter().take(limit) {
                let Candidate { place, mistake } = candidate;
                let edits = edits.entry(place.file).or_default();
                let meets = |other: &Mistake| {
                    mistake.span.0 <= other.span.1 && other.span.0 <= mistake.span.1
                };
                if edits.iter().any(meets) {
                    continue;
                }
                canaries.list.push(self.canary(&place, &mistake, is_fail_to_pass));
                edits.push(mistake);
            }
            found.extend(places);
        }
        for (file, edits) in edits {
            let TestFile { path, text, mode, .. } = &self.files[file];
            let file = Current::File { bytes: edited(text, edits).into_bytes(), mode: *mode };
            canaries.files.insert((*path).to_owned(), file);
        }
        let is_canary = |id: &str, list: &[ReportCanary]| list.iter().any(|one| one.id == id);
        let beside = |canary: &ReportCanary, list: &[ReportCanary]| -> Vec<String> {
            let file = found.iter().find(|place| place.id == canary.id).map(|place| place.file);
            let same = found.iter().filter(|place| Some(place.file) == file);
            let ids = same.map(|place| place.id.to_owned());
            ids.filter(|id| !is_canary(id, list)).collect()
        };
        let all: Vec<Vec<String>> =
            canaries.list.iter().map(|canary| beside(canary, &canaries.list)).collect();
        for (canary, beside) in canaries.list.iter_mut().zip(all) {
            canary.beside = beside;
        }
        canaries.around = self.around(fail_to_pass, &canaries.list);
        canaries
    }

    /// The places of some of the ids, each test once.
    fn places<'i>(&self, ids: &'i [String]) -> Vec<Place<'i>> {
        let mut ids: Vec<&String> = ids.iter().collect();
        ids.sort_by_cached_key(|id| sha256_hex(format!("{}:{id}", self.seed).as_bytes()));
        ids.truncate(self.rules.tests);
        let mut places: Vec<Place<'i>> = Vec::new();
        for id in ids {
            let Some((file, test)) = self.place(id) else { continue };
            if !places.iter().any(|place| (place.file, place.test) == (file, test)) {
                places.push(Place { id, file, test });
            }
        }
        places
    }

    /// The only test that an id of the report refers to.
    fn place(&self, id: &str) -> Option<(usize, usize)> {
        let reported = self.report.resolve(id)?;
        let mut best: Option<(usize, Option<(usize, usize)>)> = None;
        for (file, of_file) in self.files.iter().enumerate() {
            for (test, found) in of_file.tests.iter().enumerate() {
                let place = (of_file.language, of_file.path);
                let Some(score) = fit(self.rules, place, &found.titles, reported) else { continue };
                best = match best {
                    Some((most, _)) if most > score => best,
                    // Two tests fit equally well.
                    Some((most, _)) if most == score => Some((most, None)),
                    _ => Some((score, Some((file, test)))),
                };
            }
        }
        best.and_then(|(_, place)| place)
    }

    fn candidates<'i>(&self, places: &[Place<'i>]) -> Vec<Candidate<'i>> {
        let best = |place: &Place<'i>| {
            let mistakes = self.files[place.file].tests[place.test].mistakes.iter();
            let mistake = mistakes.min_by_key(|one| rank(one, &self.seed, place.id))?;
            Some(Candidate { place: *place, mistake: mistake.clone() })
        };
        let mut candidates: Vec<Candidate<'i>> = places.iter().filter_map(best).collect();
        candidates.sort_by_cached_key(|one| rank(&one.mistake, &self.seed, one.place.id));
        candidates
    }

    fn canary(&self, place: &Place<'_>, mistake: &Mistake, is_fail_to_pass: bool) -> ReportCanary {
        let TestFile { path, text, .. } = &self.files[place.file];
        let Mistake { kind, is_certain, span, now } = mistake;
        let line = 1 + text[..span.0].bytes().filter(|byte| *byte == b'\n').count();
        let was = shown(&text[span.0..span.1]);
        let what = format!("{}, {path} line {line}: {was} as {}", place.id, shown(now));
        let (id, beside) = (place.id.to_owned(), Vec::new());
        ReportCanary { id, kind: *kind, is_certain: *is_certain, is_fail_to_pass, beside, what }
    }

    /// The expected tests around canaries: TAP lists a suite like a test.
    fn around(&self, ids: &[String], list: &[ReportCanary]) -> BTreeSet<String> {
        let canaries: Vec<&str> =
            list.iter().filter_map(|canary| self.report.resolve(&canary.id)).collect();
        let is_around = |id: &&String| {
            self.report.resolve(id).is_some_and(|outer| {
                let outer = format!("{outer} > ");
                canaries.iter().any(|inner| inner.starts_with(&outer))
            })
        };
        ids.iter().filter(is_around).cloned().collect()
    }
}

/// The text with its mistakes.
fn edited(text: &str, mut mistakes: Vec<Mistake>) -> String {
    mistakes.sort_by_key(|mistake| std::cmp::Reverse(mistake.span));
    let mut text = text.to_owned();
    for Mistake { span: (start, end), now, .. } in mistakes {
        text.replace_range(start..end, &now);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "const { add } = require('../calc');\n\
                        test('adds', () => { assert.equal(add(1, 2), 3); });\n\
                        test('zero', () => { assert.equal(add(0, 0), 0); });\n\
                        describe('more', () => { test('many', () => { check(add(2, 2)); }); });\n";

    fn canaries_of(fail_to_pass: &[&str], pass_to_pass: &[&str]) -> ReportCanaries {
        let task: Task = serde_json::from_value(serde_json::json!({
            "schema_version": 1, "id": "t", "statement": "", "environment": {},
            "fail_to_pass": fail_to_pass, "pass_to_pass": pass_to_pass, "test_command": []
        }))
        .unwrap();
        let ids = ["adds", "zero", "more", "more > many"];
        let tests: BTreeMap<String, TestStatus> =
            ids.iter().map(|id| ((*id).to_owned(), TestStatus::Passed)).collect();
        let report = Report { tests: tests.clone(), ended: true, ..Report::default() };
        let mut pristine = Pristine::default();
        let file = Current::File { bytes: FILE.into(), mode: 0o644 };
        pristine.files.insert("test/calc.test.js".into(), file);
        pristine.files.insert("test/data.txt".into(), Current::File { bytes: vec![], mode: 0o644 });
        make(&task, &pristine, &report, &tests, (b"", &BTreeSet::new())).unwrap().unwrap()
    }

    fn text_of(canaries: &ReportCanaries) -> String {
        let Some(Current::File { bytes, .. }) = canaries.files.get("test/calc.test.js") else {
            panic!("no file")
        };
        String::from_utf8(bytes.clone()).unwrap()
    }

    #[test]
    fn a_value_that_a_test_expects_is_changed_in_its_place() {
        let canaries = canaries_of(&["adds"], &[]);
        let [canary] = canaries.list.as_slice() else { panic!("{canaries:?}") };
        assert_eq!((canary.kind, canary.is_certain), (Kind::Value, true));
        assert!(canary.is_fail_to_pass && canaries.compares && canary.beside.is_empty());
        assert_eq!(text_of(&canaries), FILE.replace("add(1, 2), 3", "add(1, 2), 2"));
    }

    #[test]
    fn one_of_several_fail_to_pass_tests_has_no_mistake() {
        let canaries = canaries_of(&["adds", "zero"], &["more > many"]);
        let of_group = |is_fail_to_pass: bool| {
            let list = canaries.list.iter();
            list.filter(|canary| canary.is_fail_to_pass == is_fail_to_pass).count()
        };
        assert_eq!((of_group(true), of_group(false)), (1, 1));
        // The helper's assertions are unknown, so the test fails at its beginning.
        let other = canaries.list.iter().find(|canary| !canary.is_fail_to_pass).unwrap();
        assert_eq!((other.kind, other.beside.len()), (Kind::Fail, 1));
    }

    #[test]
    fn a_suite_that_is_expected_fails_with_a_test_in_it() {
        let canaries = canaries_of(&["more", "more > many"], &[]);
        assert_eq!(canaries.list.len(), 1);
        assert_eq!(canaries.around, BTreeSet::from(["more".to_owned()]));
        assert!(!canaries.compares);
    }

    #[test]
    fn tests_that_are_not_found_have_no_canary() {
        assert!(canaries_of(&["more"], &[]).list.is_empty());
    }
}
