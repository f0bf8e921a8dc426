//! Runs real Git on trees in a temporary directory.

#![expect(clippy::unwrap_used, reason = "a test helper fails by panic")]

use std::{
    ffi::OsStr,
    fs,
    io::Write as _,
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::{PermissionsExt as _, symlink},
    },
    path::Path,
    process::{Command, Stdio},
};

use crate::common::{Node, Nodes};

fn git(dir: &Path, arguments: &[&str], stdin: &[u8]) -> Result<Vec<u8>, String> {
    let mut child = Command::new("git")
        .args(["-c", "core.autocrlf=false", "-c", "init.defaultBranch=main"])
        .args(arguments)
        .current_dir(dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CEILING_DIRECTORIES", dir.parent().unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Ignore write errors: if Git exits early, it closes its end of the pipe, and its exit status
    // shows the error.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    let done = child.wait_with_output().unwrap();
    if done.status.success() {
        Ok(done.stdout)
    } else {
        Err(String::from_utf8_lossy(&done.stderr).into_owned())
    }
}

/// Applies the patch to the tree with `git apply`.
pub fn apply(base: &Nodes, patch: &[u8]) -> Result<Nodes, String> {
    let folder = tempfile::tempdir().unwrap();
    write_nodes(folder.path(), base);
    if !patch.is_empty() {
        git(folder.path(), &["apply", "--whitespace=nowarn", "-"], patch)?;
    }
    let mut nodes = Nodes::new();
    read_nodes(folder.path(), folder.path(), &mut nodes);
    Ok(nodes)
}

/// Commits both trees and returns the `git diff` between them.
pub fn diff(base: &Nodes, end: &Nodes, arguments: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    git(at, &["init", "-q"], b"").unwrap();
    let mut trees = Vec::new();
    for nodes in [base, end] {
        for entry in fs::read_dir(at).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name() == ".git" {
            } else if entry.file_type().unwrap().is_dir() {
                fs::remove_dir_all(entry.path()).unwrap();
            } else {
                fs::remove_file(entry.path()).unwrap();
            }
        }
        write_nodes(at, nodes);
        git(at, &["add", "-A", "-f"], b"").unwrap();
        let tree = git(at, &["write-tree"], b"").unwrap();
        trees.push(String::from_utf8(tree).unwrap().trim().to_owned());
    }
    let arguments = [&["diff", "--binary", &trees[0], &trees[1]], arguments].concat();
    git(at, &arguments, b"").unwrap()
}

fn write_nodes(dir: &Path, nodes: &Nodes) {
    for (path, node) in nodes {
        let full = dir.join(OsStr::from_bytes(path));
        fs::create_dir_all(full.parent().unwrap()).unwrap();
        match node {
            Node::File(bytes, run) => {
                fs::write(&full, bytes).unwrap();
                let mode = if *run { 0o755 } else { 0o644 };
                fs::set_permissions(&full, fs::Permissions::from_mode(mode)).unwrap();
            }
            Node::Link(target) => symlink(OsStr::from_bytes(target), &full).unwrap(),
        }
    }
}

fn read_nodes(root: &Path, dir: &Path, nodes: &mut Nodes) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let found = fs::symlink_metadata(&path).unwrap();
        let name = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
        if found.is_dir() {
            read_nodes(root, &path, nodes);
        } else if found.is_symlink() {
            let target = fs::read_link(&path).unwrap().into_os_string().into_vec();
            nodes.insert(name, Node::Link(target));
        } else {
            let run = found.permissions().mode() & 0o100 != 0;
            nodes.insert(name, Node::File(fs::read(&path).unwrap(), run));
        }
    }
}
