//! Attacks on memory: the sandbox's, the runtime's, and objects that belong to no process.

use std::time::Duration;

use proctor_sandbox_api::Command;

use super::attack::{Attack, assert_no_breach, assert_responsive, attack_command, list};
use crate::{
    Fixture,
    fixture::{Outcome, ensure, expect_success},
};

pub fn attacks() -> Vec<Attack> {
    list![
        memory_is_exhausted [],
        memory_outlives_its_process [SharedMemory],
        memory_is_used_by_files_and_processes [],
        machine_wide_limits_are_exhausted [Rations],
        output_floods_the_runtime [],
    ]
}

async fn memory_is_exhausted(fixture: &Fixture<'_>) -> Outcome {
    fixture.skip_unless_enforced("memory")?;
    for _ in 0..2 {
        let hog = "x = bytearray(1 << 30); print(len(x))";
        let done = fixture.handle.run(Command::new(["python3", "-c", hog])).await?;
        ensure!(!done.success(), "1 GiB was allocated with a limit of 256 MiB");
        assert_responsive(&fixture.handle).await?;
    }
    Ok(())
}

async fn memory_outlives_its_process(fixture: &Fixture<'_>) -> Outcome {
    fixture.skip_unless_enforced("memory")?;
    // The program may be killed; only what remains afterwards matters.
    let done =
        fixture.handle.run(attack_command(include_str!("programs/shared_memory.py"), &[])).await?;
    let said = done.stdout.text();
    ensure!(!said.contains("BREACH"), "{said}");
    assert_responsive(&fixture.handle).await?;
    let left = expect_success(&fixture.run_shell("tail -n +2 /proc/sysvipc/shm | wc -l").await?)?;
    ensure!(left.trim() == "0", "{} segments outlived their process", left.trim());
    let work = "x = bytearray(150 << 20); print(len(x))";
    expect_success(&fixture.handle.run(Command::new(["python3", "-c", work])).await?)?;
    Ok(())
}

/// In some sandboxes, written files use memory. The agent must survive even if files fill all of
/// it.
async fn memory_is_used_by_files_and_processes(fixture: &Fixture<'_>) -> Outcome {
    fixture.skip_unless_enforced("memory")?;
    let fill =
        "head -c 300M /dev/zero > /var/tmp/fill; head -c 300M /dev/zero > /dev/shm/fill; true";
    fixture.run_shell(fill).await?;
    for _ in 0..3 {
        let hog = "x = bytearray(300 << 20); print(len(x))";
        let done = fixture.handle.run(Command::new(["python3", "-c", hog])).await?;
        ensure!(!done.success(), "300 MiB were allocated with a limit of 256 MiB");
    }
    fixture.run_shell("rm -f /var/tmp/fill /dev/shm/fill").await?;
    assert_responsive(&fixture.handle).await
}

async fn machine_wide_limits_are_exhausted(fixture: &Fixture<'_>) -> Outcome {
    if fixture.enforcement.not_enforced.iter().any(|e| e.starts_with("rations: watches")) {
        fixture.skip_unless_enforced("rations")?;
    }
    assert_no_breach(&fixture.handle, include_str!("programs/rations.py"), &[]).await?;
    assert_responsive(&fixture.handle).await
}

async fn output_floods_the_runtime(fixture: &Fixture<'_>) -> Outcome {
    let before = resident_kb();
    let flood = "yes & yes >&2 & head -c 1G /dev/zero & cat /dev/urandom >&2 & sleep 60";
    let done = fixture.handle.run(Command::shell(flood).time_limit(Duration::from_secs(3))).await?;
    ensure!(done.exit.timed_out, "{:?}", done.exit);
    let kept = done.stdout.head.len() + done.stdout.tail.len();
    ensure!(kept <= 2 << 20, "{kept} bytes of output were kept");
    ensure!(
        done.stdout.total_bytes > 2 << 20,
        "{} bytes are too few for a flood",
        done.stdout.total_bytes
    );
    let grown = resident_kb().saturating_sub(before);
    ensure!(grown < 128 << 10, "the runtime grew by {grown} KiB");
    assert_responsive(&fixture.handle).await
}

/// Returns the resident memory of this process, which contains the runtime, in KiB.
fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
