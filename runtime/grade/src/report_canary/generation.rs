//! Chooses mistakes, based on the pristine test files and the original run's report.

use std::collections::{BTreeMap, BTreeSet};

use proctor_official::reader::Report;
use proctor_patch::CurrentFile;
use proctor_types::{Fault, Task, TestStatus, sha256_hex};

use super::{
    Language, ReportCanaryRules, javascript,
    matches::match_score,
    rust,
    test_case::{Mistake, TestCase},
};
use crate::{
    canary::{MistakeKind, quote_excerpt},
    policy::{CanaryLimits, Policy},
    pristine::PristineTree,
};

/// The canaries of a task.
#[derive(Debug, Default)]
pub(crate) struct ReportCanaries {
    pub canaries: Vec<ReportCanary>,
    /// Whether a fail-to-pass test compares values, and the patch may have changed how these values
    /// compare.
    pub has_comparison: bool,
    /// The unchanged files that get canaries, by escaped path.
    pub(super) originals: BTreeMap<String, OriginalFile>,
    /// Expected ids of suites that contain a canary. A suite also fails if one of its tests fails.
    pub enclosing_suite_ids: BTreeSet<String>,
}

/// A test with a mistake, which must fail.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReportCanary {
    /// The expected test's id.
    pub id: String,
    pub kind: MistakeKind,
    pub is_certain: bool,
    pub is_fail_to_pass: bool,
    /// Other expected tests of the same file, without a mistake.
    pub unchanged_tests: Vec<String>,
    /// Describes the mistake: the test, the position, the original text and its replacement.
    pub description: String,
    /// The test file, by escaped path.
    pub(super) path: String,
    pub(super) mistake: Mistake,
}

/// A test file without mistakes.
#[derive(Debug)]
pub(super) struct OriginalFile {
    text: String,
    mode: u32,
}

impl ReportCanaries {
    /// Returns the ids of all canaries.
    pub(crate) fn ids(&self) -> BTreeSet<String> {
        self.canaries.iter().map(|canary| canary.id.clone()).collect()
    }

    /// Returns the files that contain the given canaries and no others, by escaped path. Includes the
    /// unchanged files of other canaries: build tools like cargo compare times of files, and would
    /// otherwise use the result of an earlier run with those canaries.
    pub(crate) fn files_with(&self, ids: &BTreeSet<String>) -> BTreeMap<String, CurrentFile> {
        let mut mistakes: BTreeMap<&str, Vec<Mistake>> = BTreeMap::new();
        for canary in &self.canaries {
            let of_file = mistakes.entry(&canary.path).or_default();
            if ids.contains(&canary.id) {
                of_file.push(canary.mistake.clone());
            }
        }
        let change = |(path, mistakes): (&str, Vec<Mistake>)| {
            let OriginalFile { text, mode } = self.originals.get(path)?;
            let bytes = apply_mistakes(text, mistakes).into_bytes();
            Some((path.to_owned(), CurrentFile::File { bytes, mode: *mode }))
        };
        mistakes.into_iter().filter_map(change).collect()
    }
}

struct TestFile<'a> {
    path: &'a str,
    text: &'a str,
    mode: u32,
    language: Language,
    tests: Vec<TestCase>,
}

/// An expected test and its position in the test files.
#[derive(Clone, Copy)]
struct TestLocation<'a> {
    id: &'a str,
    file: usize,
    test: usize,
}

/// A test and its best mistake.
struct Candidate<'a> {
    location: TestLocation<'a>,
    mistake: Mistake,
}

/// Returns the sort key of a mistake. Mistakes that an object equal to everything would pass come
/// first, then mistakes that certainly fail, then the better kinds. Ties are broken at random.
fn sort_key(mistake: &Mistake, seed: &str, name: &str) -> (bool, bool, MistakeKind, String) {
    let Mistake { kind, is_certain, span, replacement: now, .. } = mistake;
    let name = format!("{seed}:{name}:{}:{}:{now}", span.0, span.1);
    let chance = sha256_hex(name.as_bytes());
    (!kind.detects_equal_to_everything(), !is_certain, *kind, chance)
}

/// Creates canaries from passed tests. `apart` contains the quarantined tests, and `patch` is
/// the graded patch. Returns `None` if no test file is in a language that supports canaries.
pub(crate) fn create_report_canaries(
    task: &Task,
    pristine: &PristineTree,
    report: &Report,
    tests: &BTreeMap<String, TestStatus>,
    (patch, apart): (&[u8], &BTreeSet<String>),
) -> Result<Option<ReportCanaries>, Fault> {
    let policy = Policy::get()?;
    let rules = &policy.report.canaries;
    let files = parse_test_files(pristine, rules);
    if files.is_empty() {
        return Ok(None);
    }
    let may_define_equality = rust::may_define_equality(patch, &rules.rust);
    let (limits, seed) = (&policy.canaries, task.digest());
    let maker = CanaryBuilder { rules, limits, files, report, may_define_equality, seed };
    let passed = |ids: &[String]| -> Vec<String> {
        let counts =
            |id: &&String| !apart.contains(*id) && tests.get(*id) == Some(&TestStatus::Passed);
        ids.iter().filter(counts).cloned().collect()
    };
    Ok(Some(maker.build_canaries(&passed(&task.fail_to_pass), &passed(&task.pass_to_pass))))
}

fn parse_test_files<'a>(
    pristine: &'a PristineTree,
    rules: &ReportCanaryRules,
) -> Vec<TestFile<'a>> {
    let read = |(path, current): (&'a String, &'a CurrentFile)| {
        let language = rules.language_for(path)?;
        let CurrentFile::File { bytes, mode } = current else { return None };
        let text = std::str::from_utf8(bytes).ok()?;
        let tests = match language {
            Language::JavaScript => javascript::find_tests(text, &rules.javascript),
            Language::Rust => rust::find_tests(text, &rules.rust),
        };
        Some(TestFile { path, text, mode: *mode, language, tests })
    };
    pristine.files.iter().filter_map(read).collect()
}

struct CanaryBuilder<'a> {
    rules: &'a ReportCanaryRules,
    limits: &'a CanaryLimits,
    files: Vec<TestFile<'a>>,
    report: &'a Report,
    /// Whether the patch may change the result of a comparison in Rust.
    may_define_equality: bool,
    /// The random seed. It is derived from the task, so that gold's grading has the same canaries
    /// and shows which of them cannot fail.
    seed: String,
}

impl CanaryBuilder<'_> {
    fn build_canaries(&self, fail_to_pass: &[String], pass_to_pass: &[String]) -> ReportCanaries {
        let mut canaries = ReportCanaries::default();
        let mut edits: BTreeMap<usize, Vec<Mistake>> = BTreeMap::new();
        let mut found: Vec<TestLocation<'_>> = Vec::new();
        // Leave one of several fail-to-pass tests unchanged, to detect code under test that behaves
        // differently in the run with canaries.
        let few = fail_to_pass.len().saturating_sub(1).max(1);
        let groups = [
            (fail_to_pass, self.limits.fail_to_pass.min(few), true),
            (pass_to_pass, self.limits.pass_to_pass, false),
        ];
        for (ids, limit, is_fail_to_pass) in groups {
            let places = self.locate_tests(ids);
            let compares = |place: &TestLocation<'_>| {
                let file = &self.files[place.file];
                let is_fixed = file.language == Language::Rust && !self.may_define_equality;
                file.tests[place.test].has_comparison && !is_fixed
            };
            canaries.has_comparison |= is_fail_to_pass && places.iter().any(compares);
            for candidate in self.candidates(&places).into_iter().take(limit) {
                let Candidate { location: place, mistake } = candidate;
                let edits = edits.entry(place.file).or_default();
                let meets = |other: &Mistake| {
                    mistake.span.0 <= other.span.1 && other.span.0 <= mistake.span.1
                };
                if edits.iter().any(meets) {
                    continue;
                }
                canaries.canaries.push(self.build_canary(&place, &mistake, is_fail_to_pass));
                edits.push(mistake);
            }
            found.extend(places);
        }
        for file in edits.into_keys() {
            let TestFile { path, text, mode, .. } = &self.files[file];
            let original = OriginalFile { text: (*text).to_owned(), mode: *mode };
            canaries.originals.insert((*path).to_owned(), original);
        }
        let is_canary = |id: &str, list: &[ReportCanary]| list.iter().any(|one| one.id == id);
        let beside = |canary: &ReportCanary, list: &[ReportCanary]| -> Vec<String> {
            let file = found.iter().find(|place| place.id == canary.id).map(|place| place.file);
            let same = found.iter().filter(|place| Some(place.file) == file);
            let ids = same.map(|place| place.id.to_owned());
            ids.filter(|id| !is_canary(id, list)).collect()
        };
        let all: Vec<Vec<String>> =
            canaries.canaries.iter().map(|canary| beside(canary, &canaries.canaries)).collect();
        for (canary, beside) in canaries.canaries.iter_mut().zip(all) {
            canary.unchanged_tests = beside;
        }
        canaries.enclosing_suite_ids = self.enclosing_suites(fail_to_pass, &canaries.canaries);
        canaries
    }

    /// Returns the positions of up to `rules.tests` ids. Each test is returned once.
    fn locate_tests<'i>(&self, ids: &'i [String]) -> Vec<TestLocation<'i>> {
        let mut ids: Vec<&String> = ids.iter().collect();
        ids.sort_by_cached_key(|id| sha256_hex(format!("{}:{id}", self.seed).as_bytes()));
        ids.truncate(self.rules.tests);
        let mut places: Vec<TestLocation<'i>> = Vec::new();
        for id in ids {
            let Some((file, test)) = self.locate_test(id) else { continue };
            if !places.iter().any(|place| (place.file, place.test) == (file, test)) {
                places.push(TestLocation { id, file, test });
            }
        }
        places
    }

    /// Returns the position of the test to which a reported id refers, if exactly one test fits
    /// best.
    fn locate_test(&self, id: &str) -> Option<(usize, usize)> {
        let reported = self.report.resolve_id(id)?;
        let mut best: Option<(usize, Option<(usize, usize)>)> = None;
        for (file, of_file) in self.files.iter().enumerate() {
            for (test, found) in of_file.tests.iter().enumerate() {
                let place = (of_file.language, of_file.path);
                let Some(score) = match_score(self.rules, place, &found.titles, reported) else {
                    continue;
                };
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

    fn candidates<'i>(&self, locations: &[TestLocation<'i>]) -> Vec<Candidate<'i>> {
        let best = |place: &TestLocation<'i>| {
            let mistakes = self.files[place.file].tests[place.test].mistakes.iter();
            let mistake = mistakes.min_by_key(|one| sort_key(one, &self.seed, place.id))?;
            Some(Candidate { location: *place, mistake: mistake.clone() })
        };
        let mut candidates: Vec<Candidate<'i>> = locations.iter().filter_map(best).collect();
        candidates.sort_by_cached_key(|one| sort_key(&one.mistake, &self.seed, one.location.id));
        candidates
    }

    fn build_canary(
        &self,
        location: &TestLocation<'_>,
        mistake: &Mistake,
        is_fail_to_pass: bool,
    ) -> ReportCanary {
        let TestFile { path, text, .. } = &self.files[location.file];
        let Mistake { kind, is_certain, span, replacement: now } = mistake;
        let line = 1 + text[..span.0].bytes().filter(|byte| *byte == b'\n').count();
        let was = quote_excerpt(&text[span.0..span.1]);
        let what =
            format!("{}, {path} line {line}: {was} changed to {}", location.id, quote_excerpt(now));
        let (id, beside) = (location.id.to_owned(), Vec::new());
        ReportCanary {
            id,
            kind: *kind,
            is_certain: *is_certain,
            is_fail_to_pass,
            unchanged_tests: beside,
            description: what,
            path: (*path).to_owned(),
            mistake: mistake.clone(),
        }
    }

    /// Returns the expected ids of suites that contain a canary. TAP lists a suite like a test.
    fn enclosing_suites(&self, ids: &[String], list: &[ReportCanary]) -> BTreeSet<String> {
        let canaries: Vec<&str> =
            list.iter().filter_map(|canary| self.report.resolve_id(&canary.id)).collect();
        let is_around = |id: &&String| {
            self.report.resolve_id(id).is_some_and(|outer| {
                let outer = format!("{outer} > ");
                canaries.iter().any(|inner| inner.starts_with(&outer))
            })
        };
        ids.iter().filter(is_around).cloned().collect()
    }
}

/// Returns the text with the mistakes applied.
fn apply_mistakes(text: &str, mut mistakes: Vec<Mistake>) -> String {
    mistakes.sort_by_key(|mistake| std::cmp::Reverse(mistake.span));
    let mut text = text.to_owned();
    for Mistake { span: (start, end), replacement: now, .. } in mistakes {
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

    fn create_canaries(fail_to_pass: &[&str], pass_to_pass: &[&str]) -> ReportCanaries {
        let task: Task = serde_json::from_value(serde_json::json!({
            "schema_version": 1, "id": "t", "statement": "", "environment": {},
            "fail_to_pass": fail_to_pass, "pass_to_pass": pass_to_pass, "test_command": []
        }))
        .unwrap();
        let ids = ["adds", "zero", "more", "more > many"];
        let tests: BTreeMap<String, TestStatus> =
            ids.iter().map(|id| ((*id).to_owned(), TestStatus::Passed)).collect();
        let report = Report { tests: tests.clone(), is_complete: true, ..Report::default() };
        let mut pristine = PristineTree::default();
        let file = CurrentFile::File { bytes: FILE.into(), mode: 0o644 };
        pristine.files.insert("test/calc.test.js".into(), file);
        pristine
            .files
            .insert("test/data.txt".into(), CurrentFile::File { bytes: vec![], mode: 0o644 });
        create_report_canaries(&task, &pristine, &report, &tests, (b"", &BTreeSet::new()))
            .unwrap()
            .unwrap()
    }

    fn canary_file(canaries: &ReportCanaries) -> String {
        file_with(canaries, &canaries.ids())
    }

    fn file_with(canaries: &ReportCanaries, ids: &BTreeSet<String>) -> String {
        let files = canaries.files_with(ids);
        let Some(CurrentFile::File { bytes, .. }) = files.get("test/calc.test.js") else {
            panic!("no file")
        };
        String::from_utf8(bytes.clone()).unwrap()
    }

    #[test]
    fn canaries_can_be_planted_separately() {
        let canaries = create_canaries(&["adds"], &["zero"]);
        let one = |id: &str| BTreeSet::from([id.to_owned()]);
        assert_eq!(canaries.ids(), BTreeSet::from(["adds".to_owned(), "zero".to_owned()]));
        let (adds, zero) = (file_with(&canaries, &one("adds")), file_with(&canaries, &one("zero")));
        assert!(!adds.contains("add(1, 2), 3") && adds.contains("add(0, 0), 0"), "{adds}");
        assert!(zero.contains("add(1, 2), 3") && !zero.contains("add(0, 0), 0"), "{zero}");
        assert_eq!(file_with(&canaries, &BTreeSet::new()), FILE);
    }

    #[test]
    fn report_canary_changes_an_expected_value_in_place() {
        let canaries = create_canaries(&["adds"], &[]);
        let [canary] = canaries.canaries.as_slice() else { panic!("{canaries:?}") };
        assert_eq!((canary.kind, canary.is_certain), (MistakeKind::Value, true));
        assert!(
            canary.is_fail_to_pass && canaries.has_comparison && canary.unchanged_tests.is_empty()
        );
        assert_eq!(canary_file(&canaries), FILE.replace("add(1, 2), 3", "add(1, 2), 2"));
    }

    #[test]
    fn one_of_several_fail_to_pass_tests_stays_unchanged() {
        let canaries = create_canaries(&["adds", "zero"], &["more > many"]);
        let of_group = |is_fail_to_pass: bool| {
            let list = canaries.canaries.iter();
            list.filter(|canary| canary.is_fail_to_pass == is_fail_to_pass).count()
        };
        assert_eq!((of_group(true), of_group(false)), (1, 1));
        // The parser does not know the helper's assertions, so the mistake is a failure at the
        // start of the test.
        let other = canaries.canaries.iter().find(|canary| !canary.is_fail_to_pass).unwrap();
        assert_eq!((other.kind, other.unchanged_tests.len()), (MistakeKind::Fail, 1));
    }

    #[test]
    fn expected_suite_around_a_canary_is_listed() {
        let canaries = create_canaries(&["more", "more > many"], &[]);
        assert_eq!(canaries.canaries.len(), 1);
        assert_eq!(canaries.enclosing_suite_ids, BTreeSet::from(["more".to_owned()]));
        assert!(!canaries.has_comparison);
    }

    #[test]
    fn tests_that_are_not_found_get_no_canary() {
        assert!(create_canaries(&["more"], &[]).canaries.is_empty());
    }
}
