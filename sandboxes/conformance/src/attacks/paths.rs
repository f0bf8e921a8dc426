//! Attacks on the host's file access through links that redirect its reads and writes.

use std::{sync::Arc, time::Duration};

use proctor_sandbox_api::wire::EntryKind;

use super::attack::{Attack, assert_responsive, attack_command, list, snapshot_request};
use crate::{
    Fixture,
    fixture::{Outcome, check_failed, ensure, expect_success, raw_path},
};

pub fn attacks() -> Vec<Attack> {
    list![
        folder_becomes_a_link_between_check_and_write [],
        work_folder_becomes_a_link [],
        write_follows_a_hard_link_outside [],
        special_files_block_readers [],
    ]
}

async fn folder_becomes_a_link_between_check_and_write(fixture: &Fixture<'_>) -> Outcome {
    let handle = Arc::clone(&fixture.handle);
    let swapping = tokio::spawn(async move {
        handle.run(attack_command(include_str!("programs/exchange.py"), &[])).await
    });
    let bound = raw_path("/testbed");
    let mut written = 0;
    for number in 0..400 {
        let name = raw_path(&format!("/testbed/proxy/file-{number}"));
        // What matters is where the write went, not whether it was rejected.
        written += u32::from(fixture.handle.write_beneath(&bound, &name, b"x", None).await.is_ok());
        if number % 20 == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let outside = expect_success(&fixture.run_shell("ls -A /outside 2>/dev/null | wc -l").await?)?;
    fixture.handle.write(&raw_path("/testbed/stop"), b"", None).await?;
    let swapped = swapping.await.map_err(|error| check_failed(error.to_string()))??;
    ensure!(
        swapped.stdout.text().contains("swapping"),
        "the swapping program did not run: {swapped:?}"
    );
    ensure!(outside.trim() == "0", "{} files were written outside", outside.trim());
    ensure!(written > 0, "no write succeeded, so the test proves nothing");
    Ok(())
}

async fn work_folder_becomes_a_link(fixture: &Fixture<'_>) -> Outcome {
    let line = "mkdir -p /outside /testbed/inner && ln -s /outside /testbed/out && \
                ln -s ../outside /testbed/up && ln -s /proc/self/root /testbed/root && \
                ln -s /proc/1/root /testbed/other && ln -s /dev/zero /testbed/zero";
    expect_success(&fixture.run_shell(line).await?)?;
    let bound = raw_path("/testbed");
    for name in ["out/x", "up/x", "root/outside/x", "other/outside/x", "inner/../../outside/x"] {
        let name = raw_path(&format!("/testbed/{name}"));
        let wrote = fixture.handle.write_beneath(&bound, &name, b"x", None).await;
        ensure!(wrote.is_err(), "{name} was written");
    }
    let seen = expect_success(&fixture.run_shell("ls -A /outside").await?)?;
    ensure!(seen.is_empty(), "{seen:?}");
    let wrote = fixture.handle.write_beneath(&bound, &raw_path("/testbed/zero"), b"x", None).await;
    ensure!(wrote.is_err(), "a device was written to");
    assert_responsive(&fixture.handle).await
}

async fn write_follows_a_hard_link_outside(fixture: &Fixture<'_>) -> Outcome {
    let line = "mkdir -p /outside /testbed && echo kept > /outside/file && \
                ln /outside/file /testbed/file";
    expect_success(&fixture.run_shell(line).await?)?;
    fixture
        .handle
        .write_beneath(&raw_path("/testbed"), &raw_path("/testbed/file"), b"new\n", None)
        .await?;
    let said = expect_success(&fixture.run_shell("cat /outside/file /testbed/file").await?)?;
    ensure!(said == "kept\nnew\n", "{said:?}");
    Ok(())
}

/// A process that opens these files would block forever or read without end.
async fn special_files_block_readers(fixture: &Fixture<'_>) -> Outcome {
    let line = "mkdir -p /testbed && cd /testbed && mkfifo pipe && ln -s /dev/zero zero && \
                ln -s /proc/1/mem mem && ln -s pipe link && ln -s self self && \
                python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('socket')\"";
    expect_success(&fixture.run_shell(line).await?)?;
    let reply = fixture.handle.snapshot(snapshot_request("/testbed"));
    let reply = tokio::time::timeout(Duration::from_secs(20), reply).await;
    let (reply, _) = reply.map_err(|_| check_failed("the snapshot hangs"))??;
    let files = reply.changed.iter().filter(|entry| entry.kind == EntryKind::File).count();
    ensure!(files == 0, "a special file is listed as a regular file");
    for name in ["pipe", "socket", "zero", "mem", "self"] {
        let at = raw_path(&format!("/testbed/{name}"));
        let read = fixture.handle.read(&at, 1 << 20);
        let read = tokio::time::timeout(Duration::from_secs(20), read).await;
        ensure!(matches!(read, Ok(Err(_))), "{name}: {read:?}");
    }
    assert_responsive(&fixture.handle).await
}
