//! Reads a local clone with the git program, without any user's configuration.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A clone. Nothing in it is changed or run: no hooks, no filters, no external diffs.
pub struct Repository {
    folder: PathBuf,
}

/// A commit, as far as it says what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    pub id: String,
    pub parents: Vec<String>,
    /// When it was written, in seconds since 1970.
    pub written: u64,
    /// When it was committed: `2024-05-01T12:00:00Z`.
    pub date: String,
    pub message: String,
}

/// How git prints a commit. What ends it stands in no message; an empty field would end it too early
/// where that were two empty characters.
const PRINTED: &str = "--format=%H%x00%P%x00%at%x00%cd%x00%B%x00%x01";
const DATES: &str = "--date=format-local:%Y-%m-%dT%H:%M:%SZ";
const END: &str = "\0\u{1}";

impl Repository {
    /// # Errors
    /// The folder is no clone, or there is no git.
    pub fn open(folder: &Path) -> Result<Self, String> {
        let repository = Self { folder: folder.to_path_buf() };
        repository.git(&["rev-parse", "--git-dir"])?;
        Ok(repository)
    }

    /// The full id of a commit, where the clone has it.
    pub fn commit(&self, name: &str) -> Option<String> {
        let wanted = format!("{name}^{{commit}}");
        let found = self.git(&["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted]);
        found.ok().map(|id| id.trim().to_owned()).filter(|id| !id.is_empty())
    }

    /// Commits whose message a line of matches the pattern (extended), newest first.
    pub(super) fn find(&self, pattern: &str) -> Result<Vec<Commit>, String> {
        let grep = format!("--grep={pattern}");
        let said = self.output(&["log", "--all", "-E", &grep, PRINTED, DATES])?;
        Ok(commits(&said))
    }

    /// All that the checked-out commit is made of, newest first.
    ///
    /// # Errors
    /// What git says.
    pub fn history(&self) -> Result<Vec<Commit>, String> {
        self.output(&["log", "--topo-order", PRINTED, DATES, "HEAD"]).map(|said| commits(&said))
    }

    /// When the first commit after one, up to another, was written.
    pub fn first_written(&self, from: &str, to: &str) -> Option<u64> {
        let said = self.git(&["log", "--format=%at", &format!("{from}..{to}")]).ok()?;
        said.lines().filter_map(|line| line.trim().parse().ok()).min()
    }

    /// The names at the top of a commit's tree.
    ///
    /// # Errors
    /// What git says.
    pub fn top(&self, commit: &str) -> Result<Vec<String>, String> {
        let said = self.git(&["ls-tree", "--name-only", "-z", commit])?;
        Ok(said.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
    }

    /// The address that it was cloned from.
    pub fn origin(&self) -> Option<String> {
        let said = self.git(&["config", "--local", "--get", "remote.origin.url"]).ok()?;
        Some(said.trim().to_owned()).filter(|url| !url.is_empty())
    }

    pub(super) fn read_commit(&self, id: &str) -> Result<Option<Commit>, String> {
        let said = self.output(&["log", "-1", PRINTED, DATES, id])?;
        Ok(commits(&said).pop())
    }

    /// # Errors
    /// What git says; the two have nothing in common.
    pub fn merge_base(&self, one: &str, two: &str) -> Result<String, String> {
        self.git(&["merge-base", one, two]).map(|id| id.trim().to_owned())
    }

    /// From one commit to another, renames as a file that goes and one that comes.
    ///
    /// # Errors
    /// What git says; a text that is not UTF-8.
    pub fn diff(&self, from: &str, to: &str) -> Result<String, String> {
        let plain = ["diff", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames"];
        self.git(
            &[&plain[..], &["--binary", "--src-prefix=a/", "--dst-prefix=b/", from, to]].concat(),
        )
    }

    /// A file at a commit, where it is one and is text.
    pub fn file(&self, commit: &str, path: &str) -> Option<String> {
        self.git(&["cat-file", "blob", &format!("{commit}:{path}")]).ok()
    }

    fn git(&self, args: &[&str]) -> Result<String, String> {
        let printed = self.output(args)?;
        String::from_utf8(printed).map_err(|_| "git printed what is not UTF-8".to_owned())
    }

    fn output(&self, args: &[&str]) -> Result<Vec<u8>, String> {
        let output = Command::new("git")
            .args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"])
            .args(["-c", "core.quotePath=true", "-c", "diff.noprefix=false"])
            // The clone may belong to another user; it is only read.
            .args(["-c", "safe.directory=*", "--no-pager"])
            .args(args)
            .current_dir(&self.folder)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .env_remove("GIT_DIR")
            .env_remove("GIT_WORK_TREE")
            .env_remove("GIT_INDEX_FILE")
            .env_remove("GIT_EXTERNAL_DIFF")
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("git cannot be started: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let verb = args.first().copied().unwrap_or_default();
            return Err(format!("git {verb}: {}", said.trim()));
        }
        Ok(output.stdout)
    }
}

/// Messages may be of any encoding: what is not UTF-8 in one is not worth the others.
fn commits(printed: &[u8]) -> Vec<Commit> {
    String::from_utf8_lossy(printed).split(END).filter_map(commit).collect()
}

fn commit(text: &str) -> Option<Commit> {
    let mut parts = text.trim_start().splitn(5, '\0');
    let mut next = || parts.next();
    let (id, parents, written, date, message) = (next()?, next()?, next()?, next()?, next()?);
    Some(Commit {
        id: id.to_owned(),
        parents: parents.split(' ').filter(|id| !id.is_empty()).map(str::to_owned).collect(),
        // Before 1970 there was no git; some commits say so nevertheless.
        written: written.parse().unwrap_or(0),
        date: date.to_owned(),
        message: message.trim().to_owned(),
    })
}
