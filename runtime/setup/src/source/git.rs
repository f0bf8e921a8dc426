//! Checks out a commit of a Git repository with the `git` program, ignoring all configuration.

use std::{fs, path::Path, process::Stdio};

use proctor_types::Fault;
use tokio::process::Command;

use super::faults::{io_fault, source_fault};

/// Checks out `commit` into the empty directory `target_dir` and removes the history.
///
/// The repository is not trusted: no hooks, no filters, no submodules, no `ext::` transports. The
/// configuration of the user and the system is ignored, so that two hosts get the same tree. First
/// tries to fetch only the commit, without its history. If the server rejects this, fetches the
/// whole repository.
pub(super) async fn checkout(
    url: &str,
    commit: &str,
    base_dir: &Path,
    target_dir: &Path,
) -> Result<(), Fault> {
    if url.starts_with('-') || url.starts_with("ext::") {
        return Err(source_fault(format!("{url:?} is not a repository URL")));
    }
    // Like every other path in a task, a relative directory is resolved against the task's file.
    let local = base_dir.join(url);
    let url = if local.is_dir() { local.display().to_string() } else { url.to_owned() };
    run_git(target_dir, &["init", "--quiet", "."]).await?;
    let shallow =
        run_git(target_dir, &["fetch", "--quiet", "--no-tags", "--depth=1", &url, commit]).await;
    if shallow.is_err() {
        let refs = "+refs/*:refs/fetched/*";
        run_git(target_dir, &["fetch", "--quiet", "--no-tags", &url, refs]).await?;
    }
    run_git(target_dir, &["checkout", "--quiet", "--detach", "--force", commit, "--"]).await?;
    let found = run_git(target_dir, &["rev-parse", "HEAD"]).await?;
    if found.trim() != commit {
        return Err(source_fault(format!("{url}: expected commit {commit}, got {}", found.trim())));
    }
    let history = target_dir.join(".git");
    fs::remove_dir_all(&history).map_err(|error| io_fault(&history, &error))
}

async fn run_git(cwd: &Path, args: &[&str]) -> Result<String, Fault> {
    let output = Command::new("git")
        .args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"])
        .args(["-c", "protocol.ext.allow=never", "-c", "submodule.recurse=false"])
        .args(["-c", "core.autocrlf=false", "-c", "advice.detachedHead=false"])
        .args(args)
        .current_dir(cwd)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_LFS_SKIP_SMUDGE", "1")
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| source_fault(format!("cannot run git: {error}")).hint("install git"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let verb = args.first().copied().unwrap_or_default();
    Err(source_fault(format!("git {verb}: {}", said.trim())))
}
