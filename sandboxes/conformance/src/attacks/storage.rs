//! Attacks on the disk with large, many or deeply nested files.

use std::time::{Duration, Instant};

use proctor_sandbox_api::{
    Command, SandboxError,
    wire::{RefusalKind, SnapshotReply, SnapshotRequest},
};
use proctor_types::SandboxSpec;

use super::attack::{
    Attack, assert_responsive, attack_command, list, small_limits, snapshot_request,
};
use crate::{
    CheckError, Fixture,
    fixture::{Outcome, check_failed, ensure, expect_success, raw_path, run_shell},
};

pub fn attacks() -> Vec<Attack> {
    let mut all = list![
        disk_is_filled [],
        one_file_grows_forever [],
        sparse_file_is_huge [],
        file_limit_is_exceeded [Inodes],
        hundred_thousand_tiny_files_are_created [],
        folders_are_nested_thousands_deep [],
    ];
    for attack in &mut all {
        if attack.name.starts_with("hundred_thousand") {
            attack.limits = ample_limits;
        }
    }
    all
}

/// Returns limits as large as those of normal trials. A legitimate build may create that many files
/// too.
fn ample_limits() -> SandboxSpec {
    SandboxSpec::default()
}

fn large_snapshot_request(root: &str) -> SnapshotRequest {
    SnapshotRequest { file_limit: 8 << 20, entry_limit: 400_000, ..snapshot_request(root) }
}

async fn take_snapshot(fixture: &Fixture<'_>, root: &str) -> Result<SnapshotReply, CheckError> {
    Ok(fixture.handle.snapshot(large_snapshot_request(root)).await?.0)
}

async fn disk_is_filled(fixture: &Fixture<'_>) -> Outcome {
    fixture.skip_unless_enforced("disk")?;
    let handle = &fixture.handle;
    let fill = "for n in 1 2 3 4; do head -c 50M /dev/zero > /var/tmp/fill-$n || exit 1; done";
    ensure!(
        !run_shell(handle, fill).await?.success(),
        "200 MiB were written with a limit of 64 MiB"
    );
    match handle.write(&raw_path("/testbed/more"), &vec![b'x'; 1 << 20], None).await {
        Err(SandboxError::Refused(refusal)) if refusal.why == RefusalKind::NoSpace => {}
        other => return Err(check_failed(format!("not rejected for lack of space: {other:?}"))),
    }
    expect_success(&run_shell(handle, "rm /var/tmp/fill-*").await?)?;
    handle.write(&raw_path("/testbed/more"), b"x", None).await?;
    assert_responsive(handle).await
}

async fn one_file_grows_forever(fixture: &Fixture<'_>) -> Outcome {
    // The limit also applies to a single file if the total is not limited.
    let line = "cat /dev/zero > /var/tmp/endless; stat -c %s /var/tmp/endless; rm /var/tmp/endless";
    let done = fixture.handle.run(Command::shell(line).time_limit(Duration::from_secs(30))).await?;
    ensure!(!done.exit.timed_out, "the file grew for 30 seconds");
    let said = done.stdout.text();
    let size: u64 = said.trim().parse().map_err(|_| check_failed(format!("{said:?}")))?;
    ensure!(size <= small_limits().disk_mb << 20, "the file has {size} bytes");
    assert_responsive(&fixture.handle).await
}

async fn sparse_file_is_huge(fixture: &Fixture<'_>) -> Outcome {
    let begun = Instant::now();
    // The attack also fails if the write is rejected, because a file size limit may apply first.
    fixture
        .run_shell(
            "mkdir -p /testbed; truncate -s 1T /testbed/huge; truncate -s 60M /testbed/large; true",
        )
        .await?;
    let reply = take_snapshot(fixture, "/testbed").await?;
    let read = reply.changed.iter().any(|entry| entry.hash.is_some() && entry.size > 8 << 20);
    ensure!(!read, "the content of files above the limit was read");
    let listed = reply.changed.iter().any(|entry| entry.size == 60 << 20);
    ensure!(listed, "the sparse file is not listed");
    match fixture.handle.read(&raw_path("/testbed/large"), 1 << 20).await {
        Err(SandboxError::Refused(refusal)) if refusal.why == RefusalKind::TooLarge => {}
        other => {
            return Err(check_failed(format!(
                "not rejected as too large: {:?}",
                other.map(|b| b.len())
            )));
        }
    }
    ensure!(begun.elapsed() < Duration::from_secs(30), "took {:?}", begun.elapsed());
    assert_responsive(&fixture.handle).await
}

const CREATE_FILES_PROGRAM: &str = "os.makedirs('/testbed/many', exist_ok=True)\nos.chdir('/testbed/many')\n\
    made, most, content = 0, int(sys.argv[1]), sys.argv[2]\n\
    try:\n    while made < most:\n\
    \x20       with open(str(made), 'w') as f: f.write(content if made % 100 == 0 else '')\n\
    \x20       made += 1\n\
    except OSError as e: print('stopped by', e.strerror)\n\
    print('made', made)\n";

async fn file_limit_is_exceeded(fixture: &Fixture<'_>) -> Outcome {
    if fixture.enforcement.not_enforced.iter().any(|e| e.starts_with("inodes: an engine")) {
        fixture.skip_unless_enforced("inodes")?;
    }
    let said = expect_success(
        &fixture.handle.run(attack_command(CREATE_FILES_PROGRAM, &["30000", ""])).await?,
    )?;
    ensure!(said.contains("No space left"), "created more than 8,192 files: {said:?}");
    expect_success(&fixture.run_shell("rm -r /testbed/many").await?)?;
    assert_responsive(&fixture.handle).await
}

/// The agent and the runtime must handle 100,000 files within a normal sandbox's limits. Only one
/// file in a hundred has content. On disks that discard every freed block, deleting content takes
/// milliseconds per file, and this attack doesn't test that.
async fn hundred_thousand_tiny_files_are_created(fixture: &Fixture<'_>) -> Outcome {
    let said = expect_success(
        &fixture.handle.run(attack_command(CREATE_FILES_PROGRAM, &["100000", "x"])).await?,
    )?;
    ensure!(said.contains("made 100000"), "{said:?}");
    let begun = Instant::now();
    let reply = take_snapshot(fixture, "/testbed").await?;
    ensure!(reply.changed.len() >= 100_000, "{} entries", reply.changed.len());
    let mut tight = large_snapshot_request("/testbed");
    tight.entry_limit = 1_000;
    // The snapshot must be truncated and not rejected, because the trial would lose its work if it
    // were rejected.
    let (cut, _) = fixture.handle.snapshot(tight).await?;
    ensure!(cut.entries <= 1_000, "the entry limit was exceeded: {}", cut.entries);
    ensure!(
        cut.unwalked == [raw_path("many")],
        "the truncated folder is not reported: {:?}",
        cut.unwalked
    );
    match fixture.handle.list(&raw_path("/testbed/many")).await {
        Ok(list) if list.len() == 100_000 => {}
        Ok(list) => return Err(check_failed(format!("{} entries are listed", list.len()))),
        Err(SandboxError::Refused(refusal)) if refusal.why == RefusalKind::TooLarge => {}
        Err(error) => return Err(error.into()),
    }
    fixture.handle.remove(&raw_path("/testbed/many")).await?;
    ensure!(begun.elapsed() < Duration::from_secs(120), "took {:?}", begun.elapsed());
    assert_responsive(&fixture.handle).await
}

async fn folders_are_nested_thousands_deep(fixture: &Fixture<'_>) -> Outcome {
    let text = "os.makedirs('/testbed/deep'); os.chdir('/testbed/deep')\n\
        for n in range(3000):\n    os.mkdir('d' * 20); os.chdir('d' * 20)\n\
        open('bottom', 'w').write('x')\n";
    let said = expect_success(&fixture.handle.run(attack_command(text, &[])).await?)?;
    ensure!(said == "done\n", "{said:?}");
    let reply = take_snapshot(fixture, "/testbed").await?;
    // The snapshot leaves out paths that are too long for any program.
    ensure!((200..3_000).contains(&reply.changed.len()), "{} entries", reply.changed.len());
    fixture.handle.remove(&raw_path("/testbed/deep")).await?;
    let left = fixture.handle.stat(&raw_path("/testbed/deep")).await?;
    ensure!(left.is_none(), "the tree cannot be removed");
    assert_responsive(&fixture.handle).await
}
