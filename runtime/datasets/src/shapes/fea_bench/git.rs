//! Reads a local clone with the `git` program, without the user's Git configuration.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A local clone. Reading a clone neither changes it nor runs code from it: no hooks, no filters,
/// no external diffs.
pub struct Repository {
    folder: PathBuf,
}

/// A commit with its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    pub id: String,
    pub parents: Vec<String>,
    /// The author date, in seconds since the Unix epoch.
    pub author_time: u64,
    /// The committer date, such as `2024-05-01T12:00:00Z`.
    pub commit_date: String,
    pub message: String,
}

/// Git's output format for a commit. Its terminator cannot occur in a message. Two null characters
/// would not work as the terminator, because an empty field would look like the end of the commit.
const COMMIT_FORMAT: &str = "--format=%H%x00%P%x00%at%x00%cd%x00%B%x00%x01";
const DATE_FORMAT: &str = "--date=format-local:%Y-%m-%dT%H:%M:%SZ";
const COMMIT_END: &str = "\0\u{1}";

impl Repository {
    /// # Errors
    /// The directory is not a clone, or Git is not installed.
    pub fn open(folder: &Path) -> Result<Self, String> {
        let repository = Self { folder: folder.to_path_buf() };
        repository.run_git_text(&["rev-parse", "--git-dir"])?;
        Ok(repository)
    }

    /// Returns the full id of a commit, if the clone has it.
    pub fn resolve_commit(&self, name: &str) -> Option<String> {
        let wanted = format!("{name}^{{commit}}");
        let found =
            self.run_git_text(&["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted]);
        found.ok().map(|id| id.trim().to_owned()).filter(|id| !id.is_empty())
    }

    /// Returns the commits with a message line that matches the extended regular expression, newest
    /// first.
    pub(super) fn find_commits(&self, pattern: &str) -> Result<Vec<Commit>, String> {
        let grep = format!("--grep={pattern}");
        let said = self.run_git(&["log", "--all", "-E", &grep, COMMIT_FORMAT, DATE_FORMAT])?;
        Ok(parse_commits(&said))
    }

    /// Returns the history of the checked-out commit, newest first.
    ///
    /// # Errors
    /// Git fails.
    pub fn history(&self) -> Result<Vec<Commit>, String> {
        self.run_git(&["log", "--topo-order", COMMIT_FORMAT, DATE_FORMAT, "HEAD"])
            .map(|said| parse_commits(&said))
    }

    /// Returns the earliest author date of the commits after `base`, up to `head`.
    pub fn earliest_author_date(&self, base: &str, head: &str) -> Option<u64> {
        let said = self.run_git_text(&["log", "--format=%at", &format!("{base}..{head}")]).ok()?;
        said.lines().filter_map(|line| line.trim().parse().ok()).min()
    }

    /// Returns the names at the top level of a commit's tree.
    ///
    /// # Errors
    /// Git fails.
    pub fn top_level_names(&self, commit: &str) -> Result<Vec<String>, String> {
        let said = self.run_git_text(&["ls-tree", "--name-only", "-z", commit])?;
        Ok(said.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
    }

    /// Returns the URL that was cloned.
    pub fn origin_url(&self) -> Option<String> {
        let said = self.run_git_text(&["config", "--local", "--get", "remote.origin.url"]).ok()?;
        Some(said.trim().to_owned()).filter(|url| !url.is_empty())
    }

    pub(super) fn read_commit(&self, id: &str) -> Result<Option<Commit>, String> {
        let said = self.run_git(&["log", "-1", COMMIT_FORMAT, DATE_FORMAT, id])?;
        Ok(parse_commits(&said).pop())
    }

    /// # Errors
    /// Git fails, or the two commits have no common ancestor.
    pub fn merge_base(&self, first: &str, second: &str) -> Result<String, String> {
        self.run_git_text(&["merge-base", first, second]).map(|id| id.trim().to_owned())
    }

    /// Returns the diff between two commits. A rename is shown as a deletion and an addition.
    ///
    /// # Errors
    /// Git fails, or the diff is not UTF-8.
    pub fn diff(&self, base: &str, head: &str) -> Result<String, String> {
        let plain = ["diff", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames"];
        self.run_git_text(
            &[&plain[..], &["--binary", "--src-prefix=a/", "--dst-prefix=b/", base, head]].concat(),
        )
    }

    /// Returns a file at a commit, if it exists and is text.
    pub fn read_file(&self, commit: &str, path: &str) -> Option<String> {
        self.run_git_text(&["cat-file", "blob", &format!("{commit}:{path}")]).ok()
    }

    fn run_git_text(&self, args: &[&str]) -> Result<String, String> {
        let printed = self.run_git(args)?;
        String::from_utf8(printed).map_err(|_| "git's output is not UTF-8".to_owned())
    }

    fn run_git(&self, args: &[&str]) -> Result<Vec<u8>, String> {
        let output = Command::new("git")
            .args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"])
            .args(["-c", "core.quotePath=true", "-c", "diff.noprefix=false"])
            // The clone may belong to another user. That is safe, because Proctor only reads the
            // clone.
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
            .map_err(|error| format!("cannot run git: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let verb = args.first().copied().unwrap_or_default();
            return Err(format!("git {verb}: {}", said.trim()));
        }
        Ok(output.stdout)
    }
}

/// Parses commits. Messages may have any encoding, and invalid UTF-8 in one message must not affect
/// the other commits.
fn parse_commits(output: &[u8]) -> Vec<Commit> {
    String::from_utf8_lossy(output).split(COMMIT_END).filter_map(parse_commit).collect()
}

fn parse_commit(text: &str) -> Option<Commit> {
    let mut parts = text.trim_start().splitn(5, '\0');
    let mut next = || parts.next();
    let (id, parents, written, date, message) = (next()?, next()?, next()?, next()?, next()?);
    Some(Commit {
        id: id.to_owned(),
        parents: parents.split(' ').filter(|id| !id.is_empty()).map(str::to_owned).collect(),
        // Some commits have a date before the Unix epoch.
        author_time: written.parse().unwrap_or(0),
        commit_date: date.to_owned(),
        message: message.trim().to_owned(),
    })
}
