//! Reads a local clone with the git program, without any user's configuration.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A clone. Nothing in it is changed or run: no hooks, no filters, no external diffs.
pub(super) struct Repository {
    folder: PathBuf,
}

/// A commit, as far as it says what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Commit {
    pub id: String,
    pub parents: Vec<String>,
    pub message: String,
}

impl Repository {
    pub(super) fn open(folder: &Path) -> Result<Self, String> {
        let repository = Self { folder: folder.to_path_buf() };
        repository.git(&["rev-parse", "--git-dir"])?;
        Ok(repository)
    }

    /// The full id of a commit, where the clone has it.
    pub(super) fn commit(&self, name: &str) -> Option<String> {
        let wanted = format!("{name}^{{commit}}");
        let found = self.git(&["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted]);
        found.ok().map(|id| id.trim().to_owned()).filter(|id| !id.is_empty())
    }

    /// Commits whose message a line of matches the pattern (extended), newest first.
    pub(super) fn find(&self, pattern: &str) -> Result<Vec<Commit>, String> {
        let grep = format!("--grep={pattern}");
        let said = self.git(&["log", "--all", "-E", &grep, "--format=%H%x00%P%x00%B%x00%x00"])?;
        Ok(said.split("\0\0").filter_map(commit).collect())
    }

    pub(super) fn look(&self, id: &str) -> Result<Option<Commit>, String> {
        let said = self.git(&["log", "-1", "--format=%H%x00%P%x00%B", id])?;
        Ok(commit(&said))
    }

    pub(super) fn merge_base(&self, one: &str, two: &str) -> Result<String, String> {
        self.git(&["merge-base", one, two]).map(|id| id.trim().to_owned())
    }

    pub(super) fn diff(&self, from: &str, to: &str) -> Result<String, String> {
        let plain = ["diff", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames"];
        self.git(
            &[&plain[..], &["--binary", "--src-prefix=a/", "--dst-prefix=b/", from, to]].concat(),
        )
    }

    /// A file at a commit, where it is one and is text.
    pub(super) fn file(&self, commit: &str, path: &str) -> Option<String> {
        self.git(&["cat-file", "blob", &format!("{commit}:{path}")]).ok()
    }

    fn git(&self, args: &[&str]) -> Result<String, String> {
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
        String::from_utf8(output.stdout).map_err(|_| "git printed what is not UTF-8".to_owned())
    }
}

fn commit(text: &str) -> Option<Commit> {
    let mut parts = text.trim_start().splitn(3, '\0');
    let (id, parents, message) = (parts.next()?, parts.next()?, parts.next()?);
    Some(Commit {
        id: id.to_owned(),
        parents: parents.split(' ').filter(|id| !id.is_empty()).map(str::to_owned).collect(),
        message: message.trim().to_owned(),
    })
}
