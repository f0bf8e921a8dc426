//! The names that an agent could use to fetch a task's hidden solution.

use std::collections::BTreeSet;

use proctor_patch::Patch;
use proctor_types::{
    Fault, FaultCause, FaultLayer, ShippedTable, Source, Task, TestNames, file_from_test_id,
    normalize_package_name,
};
use proctor_wire::RawPath;
use serde::Deserialize;

/// The part of the proxy's list of mirrors that maps a blocked URL to a package or repository.
#[derive(Debug, Default, Deserialize)]
struct Hosts {
    forges: Vec<String>,
    indexes: Vec<String>,
    index_words: Vec<String>,
}

/// Maps URLs to packages and repositories. Fails if the list is unreadable, because the rules would
/// then search for nothing.
static HOSTS: ShippedTable<Hosts> =
    ShippedTable::new("tables/mirrors.toml", include_str!("../../../configs/tables/mirrors.toml"));

#[derive(Debug, Default)]
pub(crate) struct SolutionNames {
    /// Package names, normalized according to PEP 503.
    pub packages: BTreeSet<String>,
    /// Top-level modules that the mask removes code from.
    modules: BTreeSet<String>,
    /// Repositories as `owner/repo`.
    repositories: BTreeSet<String>,
    /// Base names of the hidden test files.
    hidden_test_names: BTreeSet<String>,
    workdir: String,
    /// Blocked URLs, as regular expressions.
    pub blocked_url_patterns: Vec<String>,
}

impl SolutionNames {
    pub(crate) fn from_task(task: &Task, names: &TestNames) -> Result<Self, Fault> {
        let hosts = HOSTS.get().map_err(|why| Fault::new(FaultLayer::Grade, why))?;
        let mut subject =
            Self { workdir: task.workdir.trim_end_matches('/').to_owned(), ..Self::default() };
        match task.repo.as_deref().map(|repo| repo.split_once('/').ok_or(repo)) {
            Some(Ok((owner, repo))) => subject.add_repository(owner, repo),
            Some(Err(name)) => subject.add_package(name),
            None => {}
        }
        match &task.source {
            Some(Source::Pypi { pypi, .. }) => subject.add_package(pypi),
            Some(Source::Git { git, .. }) => {
                let parts: Vec<_> = git.trim_end_matches('/').rsplit(['/', ':']).take(2).collect();
                if let [repo, owner] = parts[..] {
                    subject.add_repository(owner, repo);
                }
            }
            Some(Source::Path { .. } | Source::Archive { .. }) | None => {}
        }
        for url in &task.blocked_urls {
            subject.add_blocked_url(url, hosts);
        }
        subject.add_modules(task, names)?;
        let ids = task.fail_to_pass.iter().filter(|_| task.test_ids_start_with_file());
        let ids = ids.map(|id| file_from_test_id(id));
        let hidden = ids.chain(task.hidden.iter().map(String::as_str));
        let base = |path: &str| path.trim_end_matches('/').rsplit('/').next().map(str::to_owned);
        // Use only names with a file extension. A directory name such as `tests` is too common to
        // be evidence.
        subject.hidden_test_names =
            hidden.filter_map(base).filter(|name| name.contains('.')).collect();
        Ok(subject)
    }

    fn add_package(&mut self, name: &str) {
        if !name.is_empty() {
            self.packages.insert(normalize_name(name));
        }
    }

    /// Adds a repository, and a package with the same name, because the two names are usually
    /// identical. The egress proxy makes the same assumption.
    fn add_repository(&mut self, owner: &str, repo: &str) {
        let repo = repo.trim_end_matches(".git");
        if !owner.is_empty() && !repo.is_empty() {
            self.repositories.insert(format!("{owner}/{repo}"));
            self.add_package(repo);
        }
    }

    fn add_blocked_url(&mut self, url: &str, hosts: &Hosts) {
        let bare = url.trim();
        let bare = bare.split_once("://").map_or(bare, |(_, rest)| rest);
        let bare = bare.split(['?', '#']).next().unwrap_or(bare);
        let mut parts = bare.split('/').filter(|part| !part.is_empty());
        let host = parts.next().unwrap_or_default().trim_start_matches("www.").to_lowercase();
        let segments: Vec<_> = parts.collect();
        if hosts.forges.contains(&host)
            && let [owner, repo, ..] = segments[..]
            && !owner.contains('*')
            && !repo.contains('*')
        {
            self.add_repository(owner, repo);
        }
        if hosts.indexes.contains(&host) {
            let named = segments.iter().find(|part| {
                !part.contains('*') && !hosts.index_words.contains(&part.to_lowercase())
            });
            if let Some(name) = named {
                self.add_package(name);
            }
        }
        if host.contains('.') {
            self.blocked_url_patterns.push(blocked_url_pattern(bare));
        }
    }

    fn add_modules(&mut self, task: &Task, names: &TestNames) -> Result<(), Fault> {
        let Some(mask) = &task.mask else { return Ok(()) };
        // Report the error. Without these modules, the rules would silently search for less.
        let touched = Patch::parse(mask.as_bytes()).touched_paths().map_err(|error| {
            let message = format!("{}: its mask cannot be read: {error}", task.id);
            Fault::new(FaultLayer::Grade, message).cause(FaultCause::Invalid)
        })?;
        for path in touched {
            let path = RawPath::from_task_path(&path.to_escaped()).to_escaped();
            let Some(stem) = path.strip_suffix(".py") else { continue };
            let mut parts = stem.split('/').peekable();
            if parts.peek().is_some_and(|first| names.import_roots.iter().any(|root| root == first))
            {
                parts.next();
            }
            let Some(top) = parts.next() else { continue };
            if !names.test_folders.iter().any(|folder| folder == top) && top != "setup" {
                self.modules.insert(top.to_owned());
            }
        }
        Ok(())
    }

    /// Returns each placeholder in the patterns with the task's alternatives for it, or with `None`
    /// if the task has no alternatives.
    pub(crate) fn placeholders(&self) -> [(&'static str, Option<String>); 5] {
        let packages = || self.packages.iter();
        let modules = packages()
            .map(|name| name.replace('-', "[-_./]+"))
            .chain(self.modules.iter().map(|name| regex::escape(name)));
        [
            ("{package}", alternation(packages().map(|name| name.replace('-', "[-_.]+")))),
            ("{module}", alternation(modules)),
            ("{repository}", alternation(self.repositories.iter().map(|name| regex::escape(name)))),
            (
                "{hidden}",
                alternation(self.hidden_test_names.iter().map(|name| regex::escape(name))),
            ),
            ("{workdir}", alternation(std::iter::once(regex::escape(&self.workdir)))),
        ]
    }
}

fn alternation(alternatives: impl Iterator<Item = String>) -> Option<String> {
    let all: Vec<_> = alternatives.collect();
    (!all.is_empty()).then(|| format!("(?:{})", all.join("|")))
}

/// Returns a pattern that matches a blocked URL, given without its scheme, anywhere in a command.
/// Everything below the URL is blocked, too.
fn blocked_url_pattern(url_without_scheme: &str) -> String {
    let trimmed = url_without_scheme.trim_end_matches(['*', '/']);
    let escaped = regex::escape(trimmed)
        .replace(r"/\*\*/", "/(?:[^ ]*/)?")
        .replace(r"\*\*", "[^ ]*")
        .replace(r"\*", "[^/ ]*");
    format!(r#"://{escaped}(?:[/?# "')]|\.git|$)"#)
}

/// Normalizes a package name according to PEP 503. Drops all characters that are not valid in a
/// package name, so that the result contains no regular expression operators.
pub(crate) fn normalize_name(name: &str) -> String {
    let lower = name.to_lowercase();
    let kept = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    normalize_package_name(&lower.chars().filter(kept).collect::<String>())
}
