//! Decides which files to screen and which findings to excuse.

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
};

use proctor_patch::{Change, CurrentFile, Patch, RawPath};
use proctor_types::one_line;

use crate::{
    language::{Hit, LanguageScreen},
    lines::LineScreen,
    python::{Exports, PythonScreen},
    rules::Rules,
};

/// Maximum number of links that lead to one file.
const MAX_LINKS: usize = 8;

/// The reason why a link is a finding.
const UNREADABLE_LINK: &str = "a link to a file that cannot be screened";

/// Stack size in bytes of the thread that parses files. The system commits memory only as far as
/// the stack is used, which depends on the nesting of the syntax.
const PARSER_STACK_BYTES: usize = 128 << 20;

/// A line in a patch that violates a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Escaped path relative to the repository.
    pub file: String,
    /// Line in the file after the patch, starting at 1.
    pub line: usize,
    pub rule: String,
    /// The kind of evidence that the finding counts as.
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
    /// Sorted by file and line. Each rule has at most one finding per line.
    pub findings: Vec<Finding>,
    /// Files that the patch changes but no screen can read.
    pub unscreened_files: Vec<String>,
}

/// An error that prevents screening.
#[derive(Debug, thiserror::Error)]
pub enum ScreenError {
    #[error("the screening rules cannot be read: {0}")]
    Rules(String),
    #[error("the screening thread failed: {0}")]
    Thread(String),
}

/// A patch and the files to compare it with.
pub struct ScreeningInput<'a> {
    pub changes: &'a PatchChanges,
    pub gold_patch: Option<&'a [u8]>,
    /// The files that either patch changes, in their original state, by escaped path.
    pub original_files: &'a BTreeMap<String, CurrentFile>,
    /// Top-level names of the repository's own packages.
    pub owned_modules: &'a BTreeSet<String>,
    /// Whether pytest alone judges the task. Code in other languages then cannot deceive an
    /// assertion.
    pub is_judged_by_pytest: bool,
    /// Returns whether to screen a path. Test files need no screening, because grading restores
    /// them.
    pub is_screened: &'a (dyn Fn(&str) -> bool + Sync),
}

/// Screens a patch. A patch that does not apply has no findings, because grading rejects it anyway.
///
/// # Errors
///
/// The built-in rules are invalid, or the system cannot create a thread.
pub fn screen(input: &ScreeningInput<'_>) -> Result<Screening, ScreenError> {
    screen_with(Rules::get().map_err(ScreenError::Rules)?, input)
}

/// Like [`screen`], with the given rules.
pub(crate) fn screen_with(
    rules: &'static Rules,
    input: &ScreeningInput<'_>,
) -> Result<Screening, ScreenError> {
    let gold_changes = input.gold_patch.map(|gold| PatchChanges::new(gold, input.original_files));
    let gold_changes = gold_changes.unwrap_or_default();
    let after = PatchedFiles::new(rules, input.changes, input);
    let gold = PatchedFiles::new(rules, &gold_changes, input);
    let work = || screen_files(rules, input, &after, &gold);
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("screening".into()).stack_size(PARSER_STACK_BYTES);
        let thread = thread.spawn_scoped(scope, work);
        let thread = thread.map_err(|error| ScreenError::Thread(error.to_string()))?;
        thread.join().map_err(|_| ScreenError::Thread("it panicked".to_owned()))
    })
}

fn screen_files(
    rules: &'static Rules,
    input: &ScreeningInput<'_>,
    patched_files: &PatchedFiles<'_>,
    gold_files: &PatchedFiles<'_>,
) -> Screening {
    let hits_of = |path: &str, bytes: &[u8], exports: &Exports| {
        let (python, lines) = (
            PythonScreen { rules, exports },
            LineScreen { rules, is_judged_by_pytest: input.is_judged_by_pytest },
        );
        let languages: [&dyn LanguageScreen; 2] = [&python, &lines];
        let language = languages.iter().copied().find(|language| language.can_read(path, bytes));
        // The rules for all files also apply to a file in an unknown language.
        let mut hits = language.unwrap_or(&lines).find_hits(path, bytes, input.owned_modules);
        hits.extend(path_hits(rules, path));
        (hits, language.is_some())
    };
    let none = Exports::default();
    let exports_of = |files: &[(&String, &[u8])]| {
        let python = PythonScreen { rules, exports: &none };
        python.exports(files.iter().copied(), input.owned_modules)
    };
    let written: Vec<(&String, &[u8])> =
        patched_files.contents.iter().map(|(path, bytes)| (path, *bytes)).collect();
    // A patch with a single file has no other files from which that file could import names.
    let exports = if written.len() > 1 { exports_of(&written) } else { Exports::default() };
    let mut found: Vec<(&String, Hit)> = Vec::new();
    let mut not_screened = Vec::new();
    for (path, bytes) in written {
        if !(input.is_screened)(path) || original_bytes(input.original_files, path) == Some(bytes) {
            continue;
        }
        let (hits, is_screened) = hits_of(path.as_str(), bytes, &exports);
        found.extend(hits.into_iter().map(|hit| (path, hit)));
        if !is_screened {
            not_screened.push(path.clone());
        }
    }
    let python = PythonScreen { rules, exports: &none };
    for path in &patched_files.unreadable_links {
        if (input.is_screened)(path) {
            let hits = python.unreadable_hits(UNREADABLE_LINK, path);
            found.extend(hits.into_iter().map(|hit| (path, hit)));
        }
    }
    let complete = complete_rules(rules, &found);
    found.retain(|(_, hit)| hit.group.is_none() || complete.contains(&hit.rule));
    let mut excused = BTreeSet::new();
    // Parse the original files only if there is a finding to excuse.
    if !found.is_empty() {
        let key = |hit: Hit| (hit.rule, rules.canonical_expression(hit.rule, hit.expression));
        let old = input
            .original_files
            .keys()
            .filter_map(|path| Some((path, original_bytes(input.original_files, path)?)));
        let solved = gold_files.contents.iter().map(|(path, bytes)| (path, *bytes));
        for files in [old.collect::<Vec<_>>(), solved.collect()] {
            let exports = exports_of(&files);
            for (path, bytes) in files {
                let (hits, _) = hits_of(path.as_str(), bytes, &exports);
                excused.extend(hits.into_iter().map(key));
            }
        }
        for path in &gold_files.unreadable_links {
            let hits = python.unreadable_hits(UNREADABLE_LINK, path);
            excused.extend(hits.into_iter().map(key));
        }
    }
    let is_excused = |hit: &Hit| {
        let expression = rules.canonical_expression(hit.rule, hit.expression.clone());
        excused.contains(&(hit.rule, expression))
    };
    let added: Vec<(&String, Hit)> =
        found.iter().filter(|(_, hit)| !is_excused(hit)).cloned().collect();
    let complete = complete_rules(rules, &added);
    let is_complete = |path: &String, rule: usize| {
        // An added use also counts together with the uses that were already in its file.
        complete.contains(&rule) || {
            let in_file: Vec<(&String, Hit)> =
                found.iter().filter(|(of, _)| *of == path).cloned().collect();
            complete_rules(rules, &in_file).contains(&rule)
        }
    };
    let mut findings: BTreeMap<(String, usize, usize), Finding> = BTreeMap::new();
    for (path, hit) in added {
        let Some(rule) = rules.table.rules.get(hit.rule) else { continue };
        if hit.group.is_some() && !is_complete(path, hit.rule) {
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
    Screening { findings: findings.into_values().collect(), unscreened_files: not_screened }
}

/// Returns the rules that need hits in several groups and have a hit in each of them.
fn complete_rules(rules: &Rules, hits: &[(&String, Hit)]) -> BTreeSet<usize> {
    let mut groups: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (_, hit) in hits {
        if let Some(group) = hit.group {
            groups.entry(hit.rule).or_default().insert(group);
        }
    }
    let wanted = |rule: usize| rules.table.rules.get(rule).map(|rule| rule.combined.len());
    let complete = groups.into_iter().filter(|(rule, found)| wanted(*rule) == Some(found.len()));
    complete.map(|(rule, _)| rule).collect()
}

fn original_bytes<'a>(
    original_files: &'a BTreeMap<String, CurrentFile>,
    path: &str,
) -> Option<&'a [u8]> {
    match original_files.get(path) {
        Some(CurrentFile::File { bytes, .. }) => Some(bytes),
        _ => None,
    }
}

/// Returns the rules that a file violates by its path.
fn path_hits(rules: &Rules, path: &str) -> Vec<Hit> {
    let violated = rules.find_rules(|rule| !rule.paths.is_empty());
    let violated = violated.into_iter().filter(|rule| rules.is_violated_by_path(*rule, path));
    let hit = |rule| Hit {
        rule,
        line: 1,
        expression: path.to_owned(),
        snippet: path.to_owned(),
        group: None,
    };
    violated.map(hit).collect()
}

/// The changes of a patch, resolved against the files that it changes. A patch that does not apply
/// has no changes.
#[derive(Debug, Default)]
pub struct PatchChanges {
    changes: Vec<Change>,
}

impl PatchChanges {
    pub fn new(patch: &[u8], original_files: &BTreeMap<String, CurrentFile>) -> Self {
        let current = |path: &RawPath| original_files.get(&path.to_escaped()).cloned();
        let resolved = Patch::parse(patch).resolve_lenient(&current);
        Self { changes: resolved.map(|resolved| resolved.changes).unwrap_or_default() }
    }

    /// Returns the paths to which the patch adds links that Python can import. Screening needs the
    /// contents of these files among the original files. Without them, the links are findings.
    pub fn linked_paths(&self) -> BTreeSet<String> {
        let Ok(rules) = Rules::get() else { return BTreeSet::new() };
        let targets = self.changes.iter().filter_map(|change| match change {
            Change::Symlink { path, target } => {
                let path = path.to_escaped();
                let target = link_target(&path, &target.to_escaped());
                target.filter(|_| rules.is_importable(&path))
            }
            Change::Write { .. } | Change::Remove { .. } => None,
        });
        targets.collect()
    }
}

/// The files that a patch writes.
#[derive(Debug, Default)]
struct PatchedFiles<'a> {
    /// Contents by path. A link that Python can import has the content of its target.
    contents: BTreeMap<String, &'a [u8]>,
    /// Links that Python can import, but whose targets are not known or not screened.
    unreadable_links: BTreeSet<String>,
}

impl<'a> PatchedFiles<'a> {
    fn new(rules: &Rules, changes: &'a PatchChanges, input: &ScreeningInput<'a>) -> Self {
        let mut files = Self::default();
        let mut links = BTreeMap::new();
        for change in &changes.changes {
            match change {
                Change::Write { path, bytes, .. } => {
                    files.contents.insert(path.to_escaped(), bytes.as_slice());
                }
                Change::Symlink { path, target } => {
                    links.insert(path.to_escaped(), target.to_escaped());
                }
                Change::Remove { .. } => {}
            }
        }
        let mut linked = Vec::new();
        for path in links.keys().filter(|path| rules.is_importable(path)) {
            match files.link_content(path, &links, input) {
                Some(bytes) => linked.push((path.clone(), bytes)),
                None => {
                    files.unreadable_links.insert(path.clone());
                }
            }
        }
        files.contents.extend(linked);
        files
    }

    /// Returns the content of the file to which a link leads. Returns `None` if the file is outside
    /// the repository or is not screened.
    fn link_content(
        &self,
        path: &str,
        links: &BTreeMap<String, String>,
        input: &ScreeningInput<'a>,
    ) -> Option<&'a [u8]> {
        let mut at = path.to_owned();
        for _ in 0..MAX_LINKS {
            let target = match (links.get(&at), input.original_files.get(&at)) {
                (Some(target), _) => target.clone(),
                (None, Some(CurrentFile::Link { target })) if !self.contents.contains_key(&at) => {
                    target.to_escaped()
                }
                _ => break,
            };
            at = link_target(&at, &target)?;
        }
        if !(input.is_screened)(&at) {
            return None;
        }
        let written = self.contents.get(&at).copied();
        written.or_else(|| original_bytes(input.original_files, &at))
    }
}

/// Returns the path of a link's target. Returns `None` if the target is outside the repository.
fn link_target(link: &str, target: &str) -> Option<String> {
    if target.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = link.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}
