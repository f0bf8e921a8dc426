//! Tests sources from a directory, an archive, a repository and the package index.

#![expect(clippy::unwrap_used, reason = "a test helper that cannot go on ends the test")]

use std::{fs, path::Path, process::Command};

use proctor_sandbox_api::Base;
use proctor_setup::{Sources, resolve_layer_spec};
use proctor_types::{Source, Task};
use tempfile::TempDir;

fn task(source: serde_json::Value) -> Task {
    serde_json::from_value(serde_json::json!({
        "schema_version": 1, "id": "t", "statement": "s", "environment": {"base": "host"},
        "source": source, "fail_to_pass": ["t.py::a"], "test_command": ["true"]
    }))
    .unwrap()
}

#[tokio::test]
async fn fetch_identifies_a_folder_by_its_content() {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("code")).unwrap();
    fs::write(dir.path().join("code/a.py"), "1").unwrap();
    let sources = Sources::new(dir.path().join("cache"));
    let task = task(serde_json::json!({"path": "code"}));
    let spec = resolve_layer_spec(&task, &sources, dir.path()).await.unwrap();
    assert_eq!(spec.base, Base::Host);
    let tree = spec.source.unwrap();
    assert!(tree.folder.is_absolute());
    assert_eq!(tree.destination.as_bytes(), b"/testbed");
    fs::write(dir.path().join("code/a.py"), "2").unwrap();
    let again = resolve_layer_spec(&task, &sources, dir.path()).await.unwrap().source.unwrap();
    assert_ne!(again.digest, tree.digest);
}

#[tokio::test]
async fn wrong_checksum_is_a_fault_with_the_expected_checksum() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("a.tar.gz"), "not an archive").unwrap();
    let sources = Sources::new(dir.path().join("cache"));
    let source = Source::Archive { archive: "a.tar.gz".into(), sha256: Some("0".repeat(64)) };
    let fault = sources.fetch(&source, dir.path()).await.unwrap_err();
    assert!(fault.what.contains(&"0".repeat(64)), "{fault}");
    assert!(!dir.path().join("cache/trees").exists());
}

fn run_git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
        .args(args)
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[tokio::test]
async fn commit_is_checked_out_without_history() {
    let dir = TempDir::new().unwrap();
    let repo = dir.path().join("repo");
    fs::create_dir(&repo).unwrap();
    run_git(&repo, &["init", "-q"]);
    fs::write(repo.join("a.py"), "old").unwrap();
    run_git(&repo, &["add", "."]);
    run_git(&repo, &["commit", "-qm", "one"]);
    let commit = run_git(&repo, &["rev-parse", "HEAD"]);
    fs::write(repo.join("a.py"), "new").unwrap();
    run_git(&repo, &["commit", "-qam", "two"]);
    let sources = Sources::new(dir.path().join("cache"));
    let source = Source::Git { git: "repo".into(), commit };
    let tree = sources.fetch(&source, dir.path()).await.unwrap();
    assert_eq!(fs::read(tree.folder.join("a.py")).unwrap(), b"old");
    assert!(!tree.folder.join(".git").exists());
    let absent = Source::Git { git: "repo".into(), commit: "0".repeat(40) };
    assert!(sources.fetch(&absent, dir.path()).await.is_err());
}

/// This test needs access to a package index, as the demo does.
#[tokio::test]
async fn sdist_is_downloaded_from_the_index_and_cached() {
    let dir = TempDir::new().unwrap();
    let sources = Sources::new(dir.path().join("cache"));
    let source = Source::Pypi {
        pypi: "boltons".into(),
        version: "25.0.0".into(),
        sha256: "e110fbdc30b7b9868cb604e3f71d4722dd8f4dcb4a5ddd06028ba8f1ab0b5ace".into(),
    };
    let tree = sources.fetch(&source, dir.path()).await.unwrap();
    assert!(tree.folder.join("boltons/strutils.py").is_file());
    let again = sources.fetch(&source, dir.path()).await.unwrap();
    assert_eq!(again, tree);
}
