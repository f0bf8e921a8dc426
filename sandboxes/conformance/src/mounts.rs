//! Checks that a sandbox can read and execute the content of mounted host directories, but cannot
//! change it.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use proctor_sandbox_api::{Command, Mount, SandboxHandle, wire::SnapshotRequest};
use proctor_types::SandboxSpec;
use tempfile::TempDir;

use super::{
    check::{Check, list},
    fixture::{
        CheckError, Fixture, Outcome, check_failed, ensure, expect_success, raw_path, run_shell,
    },
};

pub fn checks() -> Vec<Check> {
    list![
        quick mount_is_readable_and_executable,
        full mount_cannot_be_written,
        full mount_hides_existing_content,
        full mount_is_not_in_snapshots,
        full mount_of_a_missing_folder_is_a_fault,
        full mount_is_visible_in_one_sandbox_only,
    ]
}

/// The mount point used by the checks. No base image contains this path.
const MOUNT_POINT: &str = "/lent";

/// Shell commands that change the mounted directory. Each must fail.
const WRITE_COMMANDS: &[&str] = &[
    "echo x > /lent/new",
    "echo x >> /lent/tool",
    "rm /lent/tool",
    "mkdir /lent/folder",
    "mv /lent/tool /lent/other",
    "chmod 777 /lent/tool",
    "chown 1:1 /lent/tool",
    "touch /lent/tool",
    "ln -s x /lent/link",
    "mount -o remount,rw /lent",
    "umount /lent",
    "mv /lent /elsewhere",
    "rm -r /lent",
];

/// Creates a host directory with a program and a subdirectory. The subdirectory contains a file and
/// a link to the program.
fn create_host_folder() -> Result<TempDir, CheckError> {
    let made = || {
        let folder = tempfile::tempdir()?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        fs::create_dir(folder.path().join("sub"))?;
        fs::set_permissions(folder.path().join("sub"), fs::Permissions::from_mode(0o755))?;
        for (name, text, mode) in
            [("tool", "#!/bin/sh\necho lent\n", 0o755), ("sub/file", "text\n", 0o644)]
        {
            fs::write(folder.path().join(name), text)?;
            fs::set_permissions(folder.path().join(name), fs::Permissions::from_mode(mode))?;
        }
        symlink("../tool", folder.path().join("sub/link"))?;
        Ok(folder)
    };
    made().map_err(|error: std::io::Error| {
        check_failed(format!("cannot create a host folder: {error}"))
    })
}

fn mount_at(folder: &Path, mount_point: &str) -> Vec<Mount> {
    vec![Mount { folder: folder.to_owned(), mount_point: raw_path(mount_point) }]
}

async fn run_as_nobody(handle: &SandboxHandle, line: &str) -> Result<(String, bool), CheckError> {
    let mut command = Command::shell(line);
    command.user = Some("65534:65534".to_owned());
    let done = handle.run(command).await?;
    Ok((done.stdout.text(), done.success()))
}

async fn mount_is_readable_and_executable(fixture: &Fixture<'_>) -> Outcome {
    let folder = create_host_folder()?;
    let mut sandbox = fixture
        .open_with_mounts(SandboxSpec::default(), mount_at(folder.path(), MOUNT_POINT))
        .await?;
    let line = "/lent/tool; /lent/sub/link; cat /lent/sub/file";
    let seen = expect_success(&run_shell(sandbox.handle(), line).await?)?;
    ensure!(seen == "lent\nlent\ntext\n", "{seen:?}");
    if fixture.skip_unless_enforced("other users").is_ok() {
        let (seen, ran) = run_as_nobody(sandbox.handle(), line).await?;
        ensure!(ran && seen == "lent\nlent\ntext\n", "{seen:?}");
    }
    Ok(sandbox.close().await?)
}

async fn mount_cannot_be_written(fixture: &Fixture<'_>) -> Outcome {
    let folder = create_host_folder()?;
    let mut sandbox = fixture
        .open_with_mounts(SandboxSpec::default(), mount_at(folder.path(), MOUNT_POINT))
        .await?;
    let handle = sandbox.handle();
    for write in WRITE_COMMANDS {
        let done = run_shell(handle, write).await?;
        ensure!(!done.success(), "root could run: {write}");
        if fixture.skip_unless_enforced("other users").is_ok() {
            let (_, ran) = run_as_nobody(handle, write).await?;
            ensure!(!ran, "another user could run: {write}");
        }
    }
    // The agent must not be able to bypass the mount's protection.
    let written = handle.write(&raw_path("/lent/new"), b"x", None).await;
    ensure!(written.is_err(), "the agent wrote a file");
    let removed = handle.remove(&raw_path("/lent/tool")).await;
    ensure!(removed.is_err(), "the agent removed a file");
    let seen = expect_success(&run_shell(handle, "/lent/tool; ls /lent").await?)?;
    ensure!(seen == "lent\nsub\ntool\n", "{seen:?}");
    sandbox.close().await?;
    let text = fs::read_to_string(folder.path().join("tool")).unwrap_or_default();
    ensure!(text == "#!/bin/sh\necho lent\n", "the host's file is now {text:?}");
    let mode = fs::metadata(folder.path().join("tool")).map(|found| found.permissions().mode());
    ensure!(mode.as_ref().is_ok_and(|mode| mode & 0o7777 == 0o755), "{mode:?}");
    Ok(())
}

async fn mount_hides_existing_content(fixture: &Fixture<'_>) -> Outcome {
    let folder = create_host_folder()?;
    // Mount at a directory that exists in the environment, and below directories that don't.
    for at in ["/tmp", "/tmp/a/b/c"] {
        let mut sandbox =
            fixture.open_with_mounts(SandboxSpec::default(), mount_at(folder.path(), at)).await?;
        let seen = expect_success(&run_shell(sandbox.handle(), &format!("ls {at}")).await?)?;
        ensure!(seen == "sub\ntool\n", "{at}: {seen:?}");
        sandbox.close().await?;
    }
    Ok(())
}

async fn mount_is_not_in_snapshots(fixture: &Fixture<'_>) -> Outcome {
    let folder = create_host_folder()?;
    let mut sandbox = fixture
        .open_with_mounts(SandboxSpec::default(), mount_at(folder.path(), "/tmp/work/lent"))
        .await?;
    expect_success(&run_shell(sandbox.handle(), "echo own > /tmp/work/own").await?)?;
    let request = SnapshotRequest {
        root: raw_path("/tmp/work"),
        fresh: true,
        skip: Vec::new(),
        file_limit: 10 << 20,
        entry_limit: 1_000,
        content_limit: 0,
    };
    let (reply, blobs) = sandbox.handle().snapshot(request).await?;
    let names: Vec<_> = reply.changed.iter().map(|entry| entry.path.to_string()).collect();
    ensure!(names.iter().any(|name| name == "own"), "{names:?}");
    ensure!(!names.iter().any(|name| name.starts_with("lent/")), "{names:?}");
    ensure!(!blobs.iter().any(|(_, bytes)| bytes == b"text\n"), "the mount's content was sent");
    Ok(sandbox.close().await?)
}

async fn mount_of_a_missing_folder_is_a_fault(fixture: &Fixture<'_>) -> Outcome {
    let gone = create_host_folder()?.path().to_owned();
    match fixture.open_with_mounts(SandboxSpec::default(), mount_at(&gone, MOUNT_POINT)).await {
        Err(CheckError::Failed(why)) if why.contains(&gone.display().to_string()) => Ok(()),
        Err(other) => Err(check_failed(format!("the error does not mention the folder: {other}"))),
        Ok(mut sandbox) => {
            sandbox.close().await?;
            ensure!(!gone.exists(), "the folder was created on the host");
            Err(check_failed("a sandbox was opened without its mounted folder"))
        }
    }
}

async fn mount_is_visible_in_one_sandbox_only(fixture: &Fixture<'_>) -> Outcome {
    let folder = create_host_folder()?;
    let mut with = fixture
        .open_with_mounts(SandboxSpec::default(), mount_at(folder.path(), MOUNT_POINT))
        .await?;
    let mut without = fixture.open(SandboxSpec::default()).await?;
    let seen = run_shell(without.handle(), "ls /lent").await?;
    ensure!(!seen.success(), "{:?}", seen.stdout.text());
    with.close().await?;
    Ok(without.close().await?)
}
