//! Checks that limits are enforced and that a sandbox at its limit still responds.

use std::time::{Duration, Instant};

use proctor_sandbox_api::{Command, SandboxError, wire::RefusalKind};
use proctor_types::SandboxSpec;

use super::{
    check::{Check, list},
    fixture::{
        Fixture, Outcome, check_failed, ensure, expect_success, raw_path, run_shell,
        wait_until_empty,
    },
};

pub fn checks() -> Vec<Check> {
    list![
        full process_limit_is_enforced,
        full fork_bomb_ends_at_its_time_limit,
        full memory_limit_kills,
        full memory_limit_covers_all_processes,
        full cpu_limit_is_enforced,
        full full_disk_is_reported,
    ]
}

fn small_limits() -> SandboxSpec {
    SandboxSpec { cpus: 1.0, memory_mb: 256, processes: 64, disk_mb: 64, ..SandboxSpec::default() }
}

async fn process_limit_is_enforced(fixture: &Fixture<'_>) -> Outcome {
    fixture.skip_unless_enforced("processes")?;
    let mut sandbox = fixture.open(small_limits()).await?;
    let program = "import os, time\nn = 0\n\
        try:\n    while n < 500:\n        if os.fork() == 0: time.sleep(60); os._exit(0)\n        n += 1\n\
        except OSError: pass\nprint(n)";
    let command = Command::new(["python3", "-c", program]).time_limit(Duration::from_secs(30));
    let done = sandbox.handle().run(command).await;
    let after = wait_until_empty(sandbox.handle()).await;
    sandbox.close().await?;
    let done = done?;
    let count: u32 = done.stdout.text().trim().parse().unwrap_or(u32::MAX);
    // A back end may allow a few more processes, for the agent's own threads.
    ensure!((1..96).contains(&count), "{count} processes: {}", done.stderr.text());
    after
}

async fn fork_bomb_ends_at_its_time_limit(fixture: &Fixture<'_>) -> Outcome {
    fixture.skip_unless_enforced("processes")?;
    let mut sandbox = fixture.open(small_limits()).await?;
    let started = Instant::now();
    // The shell must not fork once the fork bomb is running.
    let bomb =
        Command::shell("b() { b | b & }; b & exec sleep 60").time_limit(Duration::from_secs(2));
    let done = sandbox.handle().run(bomb).await;
    let after = wait_until_empty(sandbox.handle()).await;
    let alive = run_shell(sandbox.handle(), "echo alive").await;
    let took = started.elapsed();
    sandbox.close().await?;
    ensure!(done?.exit.timed_out, "the fork bomb ended by itself");
    after?;
    ensure!(expect_success(&alive?)? == "alive\n", "the sandbox is not responding");
    ensure!(took < Duration::from_secs(30), "took {took:?}");
    Ok(())
}

async fn memory_limit_kills(fixture: &Fixture<'_>) -> Outcome {
    fixture.skip_unless_enforced("memory")?;
    let mut sandbox = fixture.open(small_limits()).await?;
    let program = "x = bytearray(1 << 30); print(len(x))";
    let done = sandbox.handle().run(Command::new(["python3", "-c", program])).await;
    let alive = run_shell(sandbox.handle(), "echo alive").await;
    sandbox.close().await?;
    let done = done?;
    ensure!(!done.success(), "1 GiB was allocated with a limit of 256 MiB");
    ensure!(expect_success(&alive?)? == "alive\n", "the sandbox is not responding");
    Ok(())
}

async fn memory_limit_covers_all_processes(fixture: &Fixture<'_>) -> Outcome {
    fixture.skip_unless_enforced("memory")?;
    let mut sandbox = fixture.open(small_limits()).await?;
    // Each process alone stays far below the limit, but together they exceed it.
    let program = "import subprocess, sys\n\
        one = 'x = bytearray(100 << 20); import sys; sys.stdin.read(1); print(len(x))'\n\
        all = [subprocess.Popen([sys.executable, '-c', one], stdin=subprocess.PIPE) for _ in range(6)]\n\
        import time; time.sleep(4)\n\
        print(sum(p.poll() is None for p in all), 'alive')\n";
    let command = Command::new(["python3", "-c", program]).time_limit(Duration::from_secs(30));
    let done = sandbox.handle().run(command).await;
    sandbox.close().await?;
    let done = done?;
    ensure!(
        !done.stdout.text().contains("6 alive"),
        "600 MiB were allocated with a limit of 256 MiB"
    );
    Ok(())
}

async fn cpu_limit_is_enforced(fixture: &Fixture<'_>) -> Outcome {
    fixture.skip_unless_enforced("cpus")?;
    let mut sandbox = fixture.open(SandboxSpec { cpus: 0.25, ..small_limits() }).await?;
    let program = "import time\nend = time.monotonic() + 2\n\
        while time.monotonic() < end: pass\nprint(time.process_time())";
    let done = sandbox.handle().run(Command::new(["python3", "-c", program])).await;
    sandbox.close().await?;
    let used: f64 =
        expect_success(&done?)?.trim().parse().map_err(|_| check_failed("no number"))?;
    ensure!(used < 1.2, "{used} s of CPU time in 2 s with a quarter of a CPU");
    Ok(())
}

async fn full_disk_is_reported(fixture: &Fixture<'_>) -> Outcome {
    fixture.skip_unless_enforced("disk")?;
    let mut sandbox = fixture.open(small_limits()).await?;
    let handle = sandbox.handle();
    let filled = run_shell(handle, "head -c 200000000 /dev/zero > /var/tmp/fill").await;
    let wrote = handle.write(&raw_path("/var/tmp/more"), &vec![b'x'; 1 << 20], None).await;
    handle.remove(&raw_path("/var/tmp/fill")).await?;
    let again = handle.write(&raw_path("/var/tmp/more"), b"x", None).await;
    sandbox.close().await?;
    let filled = filled?;
    ensure!(!filled.success(), "200 MB were written with a limit of 64 MiB");
    match wrote {
        Err(SandboxError::Refused(refusal)) if refusal.why == RefusalKind::NoSpace => {}
        other => return Err(check_failed(format!("not rejected for lack of space: {other:?}"))),
    }
    Ok(again?)
}
