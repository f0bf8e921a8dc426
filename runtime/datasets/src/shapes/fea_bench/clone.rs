//! Uses a local clone of the repository to complete a row that has only ids.
//!
//! For license reasons, the rows on the hub contain neither the text nor the patch. The benchmark's
//! own tool downloads this data from the forge, one row at a time, which requires a token. A clone
//! contains the same patch, and the part of the pull request's text that is in commit messages.

use std::path::Path;

use proctor_patch::Patch;

use super::{
    components::{self, Component},
    git::{Commit, Repository},
};
use crate::errors::RowError;

/// Path components that make a file a test when the benchmark splits patches.
const TEST_WORDS: [&str; 3] = ["test", "e2e", "testing"];

pub(super) struct RowCompletion {
    pub patch: String,
    pub test_patch: String,
    pub non_py_patch: String,
    pub title: String,
    pub body: String,
    pub components: Vec<Component>,
    pub folder: String,
    /// `pull_request` or `commit`.
    pub source: &'static str,
}

/// The two commits between which a pull request's changes lie, and the commit that contains the
/// pull request's text.
struct CommitRange {
    base: String,
    head: String,
    message_commit: Commit,
    source: &'static str,
}

pub(super) fn complete_from_clone(
    repos: &Path,
    repo: &str,
    base: &str,
    pull_number: &str,
) -> Result<RowCompletion, RowError> {
    let folder = clone_folder(repos, repo)?;
    let fault = |what: String| RowError::invalid_row(format!("{}: {what}", folder.display()));
    let clone = Repository::open(&folder).map_err(fault)?;
    let base = clone.resolve_commit(base).ok_or_else(|| {
        RowError::invalid_field("base_commit", format!("{base} is not in {}", folder.display()))
    })?;
    if pull_number.is_empty() || !pull_number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(RowError::invalid_field(
            "pull_number",
            format!("{pull_number:?} is not a number"),
        ));
    }
    let change = find_pull(&clone, &base, pull_number).map_err(fault)?.ok_or_else(|| {
        let what = format!(
            "is {pull_number}, but {} has no refs/pull/{pull_number}/head and no merge or squashed \
             commit of this pull request; fetch `+refs/pull/*/head:refs/pull/*/head`",
            folder.display()
        );
        RowError::invalid_field("pull_number", what)
    })?;
    let whole = clone.diff(&change.base, &change.head).map_err(fault)?;
    let is_test = |path: &str| TEST_WORDS.iter().any(|word| path.contains(word));
    let SplitDiff { patch, test_patch, non_py_patch, python_files: python } =
        split_diff(&whole, is_test);
    let mut components = Vec::new();
    for path in &python {
        let before = clone.read_file(&change.base, path).unwrap_or_default();
        let after = clone.read_file(&change.head, path).unwrap_or_default();
        let added = components::added_components(path, &before, &after).unwrap_or_default();
        components.extend(added.into_iter().map(|added| added.component));
    }
    if patch.is_empty() {
        return Err(RowError::invalid_field(
            "pull_number",
            format!("{pull_number} changes only tests"),
        ));
    }
    let (title, body) = title_and_body(&change.message_commit, pull_number);
    Ok(RowCompletion {
        patch,
        test_patch,
        non_py_patch,
        title,
        body,
        components,
        folder: folder.display().to_string(),
        source: change.source,
    })
}

/// A change, split the way the benchmark splits it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SplitDiff {
    /// Everything except the tests.
    pub patch: String,
    pub test_patch: String,
    /// The part of `patch` that is not Python.
    pub non_py_patch: String,
    /// The Python files of `patch`.
    pub python_files: Vec<String>,
}

/// Splits a diff into tests and everything else.
pub fn split_diff(diff: &str, is_test: impl Fn(&str) -> bool) -> SplitDiff {
    let mut out = SplitDiff::default();
    for file in Patch::parse(diff.as_bytes()).files {
        let part = &diff[file.text_range.clone()];
        let path = String::from_utf8_lossy(file.path().as_bytes()).into_owned();
        if is_test(&path) {
            out.test_patch.push_str(part);
            continue;
        }
        out.patch.push_str(part);
        match path.ends_with(".py") {
            true => out.python_files.push(path),
            false => out.non_py_patch.push_str(part),
        }
    }
    out
}

/// Returns the clone: `owner__name` or just `name` below the directory, or the directory itself.
fn clone_folder(repos: &Path, repo: &str) -> Result<std::path::PathBuf, RowError> {
    let name = repo.rsplit('/').next().unwrap_or(repo);
    let wanted = repo.replace('/', "__");
    let candidates = [repos.join(&wanted), repos.join(format!("{wanted}.git")), repos.join(name)];
    candidates.into_iter().find(|folder| folder.is_dir()).ok_or_else(|| {
        RowError::invalid_field("repo", format!("no such clone: {}", repos.join(&wanted).display()))
    })
}

/// Finds the pull request by its ref, by its merge commit, or by its squashed commit.
fn find_pull(
    clone: &Repository,
    base: &str,
    pull_number: &str,
) -> Result<Option<CommitRange>, String> {
    let merge = clone.find_commits(&format!("^Merge pull request #{pull_number} "))?;
    let merge = merge.into_iter().find(|commit| commit.parents.len() == 2);
    let refs = [
        format!("refs/pull/{pull_number}/head"),
        format!("refs/remotes/origin/pull/{pull_number}/head"),
        format!("refs/remotes/origin/pr/{pull_number}"),
    ];
    let head = refs.iter().find_map(|name| clone.resolve_commit(name));
    let head = head.or_else(|| merge.as_ref().and_then(|commit| commit.parents.get(1).cloned()));
    if let Some(head) = head {
        let from = clone.merge_base(base, &head)?;
        let message = match merge {
            Some(merge) => Some(merge),
            None => clone.read_commit(&head)?,
        };
        let source = "pull_request";
        return Ok(message.map(|message| CommitRange {
            base: from,
            head,
            message_commit: message,
            source,
        }));
    }
    // Only a number at the end of the first line identifies the pull request. Elsewhere it is just
    // a mention.
    let squashed = clone.find_commits(&format!("\\(#{pull_number}\\)$"))?;
    let squashed = squashed.into_iter().find(|commit| {
        commit.parents.len() == 1
            && commit
                .message
                .lines()
                .next()
                .is_some_and(|line| line.ends_with(&format!("(#{pull_number})")))
    });
    Ok(squashed.and_then(|message| {
        let from = message.parents.first()?.clone();
        Some(CommitRange {
            base: from,
            head: message.id.clone(),
            message_commit: message,
            source: "commit",
        })
    }))
}

/// Returns title and body. A merge commit has the pull request's title below its own first line.
fn title_and_body(message: &Commit, number: &str) -> (String, String) {
    let text = match message.message.starts_with("Merge pull request #") {
        true => message.message.split_once('\n').map_or("", |(_, rest)| rest).trim(),
        false => message.message.as_str(),
    };
    let (title, body) = text.split_once('\n').unwrap_or((text, ""));
    let title = title.trim().trim_end_matches(&format!("(#{number})")).trim();
    (title.to_owned(), body.trim().to_owned())
}
