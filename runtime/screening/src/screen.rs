//! Decides what is screened, and what is excused.

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
};

use proctor_patch::{Change, Current, Patch, RawPath};
use proctor_types::one_line;

use crate::{lines::Lines, python::Python, rules::Rules};

/// Stack size in bytes of the thread that parses files. Only reserved; memory is used only if
/// syntax nests deeply.
const STACK: usize = 128 << 20;

/// A line of a patch that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Relative and escaped.
    pub file: String,
    /// Counted from 1, in the file as the patch leaves it.
    pub line: usize,
    pub rule: String,
    /// The kind of evidence.
    pub evidence: String,
    pub explanation: String,
    pub snippet: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { file, line, rule, explanation, snippet, .. } = self;
        write!(f, "{file}:{line}: {explanation} ({rule}): {snippet}")
    }
}

/// The result of screening.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Screening {
    /// Sorted by file and line, each rule once per line.
    pub findings: Vec<Finding>,
    /// Files that the patch changes and no screen can read.
    pub not_screened: Vec<String>,
}

/// Why nothing could be screened.
#[derive(Debug, thiserror::Error)]
pub enum ScreenError {
    #[error("the screening rules cannot be read: {0}")]
    Rules(String),
    #[error("the screening thread failed: {0}")]
    Thread(String),
}

/// A patch and what it is compared with.
pub struct Input<'a> {
    pub patch: &'a [u8],
    pub gold: Option<&'a [u8]>,
    /// The files at the paths of both patches before the patches are applied, by escaped path.
    pub before: &'a BTreeMap<String, Current>,
    /// Top-level names of the packages that the repository owns.
    pub owned: &'a BTreeSet<String>,
    /// Whether a path is screened. Test files are not, because the grader restores them.
    pub screened: &'a (dyn Fn(&str) -> bool + Sync),
}

/// A place of a text that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// The number of the rule in the table.
    pub(crate) rule: usize,
    pub(crate) line: usize,
    /// What is compared with the base and the gold patch.
    pub(crate) expression: String,
    pub(crate) snippet: String,
}

/// Reads one language.
pub trait Screen: Sync {
    /// Whether the language can judge a file of this path and content.
    fn reads(&self, path: &str, bytes: &[u8]) -> bool;

    /// The rules that a file breaks. Bytes that cannot be parsed break a rule of their own.
    fn hits(&self, path: &str, bytes: &[u8], owned: &BTreeSet<String>) -> Vec<Hit>;
}

/// Screens a patch. One that does not apply yields no findings: it is rejected elsewhere.
///
/// # Errors
///
/// The rules cannot be read, which is a fault of the build, or the system provides no thread.
pub fn screen(input: &Input<'_>) -> Result<Screening, ScreenError> {
    let rules = Rules::get().map_err(ScreenError::Rules)?;
    let after = contents(input.patch, input.before);
    let gold = input.gold.map(|gold| contents(gold, input.before)).unwrap_or_default();
    let work = || compare(rules, input, &after, &gold);
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("screening".into()).stack_size(STACK);
        let thread = thread.spawn_scoped(scope, work);
        let thread = thread.map_err(|error| ScreenError::Thread(error.to_string()))?;
        thread.join().map_err(|_| ScreenError::Thread("it panicked".to_owned()))
    })
}

fn compare(
    rules: &'static Rules,
    input: &Input<'_>,
    after: &BTreeMap<String, Vec<u8>>,
    gold: &BTreeMap<String, Vec<u8>>,
) -> Screening {
    let (python, lines) = (Python { rules }, Lines { rules });
    let languages: [&dyn Screen; 2] = [&python, &lines];
    let hits_of = |path: &str, bytes: &[u8]| {
        let language = languages.iter().find(|language| language.reads(path, bytes))?;
        Some(language.hits(path, bytes, input.owned))
    };
    let mut found = Vec::new();
    let mut not_screened = Vec::new();
    for (path, bytes) in after {
        if !(input.screened)(path) || before(input.before, path) == Some(bytes.as_slice()) {
            continue;
        }
        match hits_of(path.as_str(), bytes.as_slice()) {
            Some(hits) => found.extend(hits.into_iter().map(|hit| (path, hit))),
            None => not_screened.push(path.clone()),
        }
    }
    let mut excused = BTreeSet::new();
    // The base is only read if there is something to excuse.
    if !found.is_empty() {
        let old = input.before.keys().filter_map(|path| Some((path, before(input.before, path)?)));
        for (path, bytes) in old.chain(gold.iter().map(|(path, bytes)| (path, bytes.as_slice()))) {
            let hits = hits_of(path.as_str(), bytes).unwrap_or_default();
            excused.extend(hits.into_iter().map(|hit| (hit.rule, hit.expression)));
        }
    }
    let mut findings: BTreeMap<(String, usize, usize), Finding> = BTreeMap::new();
    for (path, hit) in found {
        let Some(rule) = rules.table.rules.get(hit.rule) else { continue };
        if excused.contains(&(hit.rule, hit.expression)) {
            continue;
        }
        findings.entry((path.clone(), hit.line, hit.rule)).or_insert_with(|| Finding {
            file: path.clone(),
            line: hit.line,
            rule: rule.name.clone(),
            evidence: rule.evidence.clone(),
            explanation: rule.explanation.clone(),
            snippet: one_line(&hit.snippet),
        });
    }
    Screening { findings: findings.into_values().collect(), not_screened }
}

fn before<'a>(before: &'a BTreeMap<String, Current>, path: &str) -> Option<&'a [u8]> {
    match before.get(path) {
        Some(Current::File { bytes, .. }) => Some(bytes),
        _ => None,
    }
}

/// The content of a patch's files after it is applied.
fn contents(patch: &[u8], before: &BTreeMap<String, Current>) -> BTreeMap<String, Vec<u8>> {
    let current = |path: &RawPath| before.get(&path.escaped()).cloned();
    let Ok(resolved) = Patch::read(patch).resolve_parts(&current) else { return BTreeMap::new() };
    let written = resolved.changes.into_iter().filter_map(|change| match change {
        Change::Write { path, bytes, .. } => Some((path.escaped(), bytes)),
        Change::Symlink { .. } | Change::Remove { .. } => None,
    });
    written.collect()
}
