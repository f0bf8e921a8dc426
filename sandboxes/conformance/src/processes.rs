//! Checks of time limits and cancellation, and that no processes are left behind.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use proctor_sandbox_api::{Command, CommandOutput};

use super::{
    check::{Check, list},
    fixture::{Fixture, Outcome, ensure, expect_success, wait_until_empty},
};

pub fn checks() -> Vec<Check> {
    list![
        quick time_limit_kills,
        full time_limit_kills_processes_that_ignore_signals,
        full time_limit_kills_background_processes,
        quick time_limit_kills_new_sessions,
        full time_limit_kills_double_forked_daemons,
        full time_limit_keeps_the_output_so_far,
        full finished_command_leaves_no_group,
        full reap_all_kills_daemons,
        full daemon_holding_the_output_does_not_hang,
        full commands_run_concurrently,
        full concurrent_floods_stay_separate,
        quick dropped_command_is_cancelled,
        full zombies_are_reaped,
    ]
}

const KILL_TIMEOUT: Duration = Duration::from_secs(10);

async fn run_into_time_limit(
    fixture: &Fixture<'_>,
    line: &str,
) -> Result<CommandOutput, super::CheckError> {
    let started = Instant::now();
    let limit = Duration::from_millis(400);
    let done = fixture.handle.run(Command::shell(line).time_limit(limit)).await?;
    ensure!(done.exit.timed_out, "not timed out: {:?}", done.exit);
    ensure!(started.elapsed() < KILL_TIMEOUT, "took {:?}", started.elapsed());
    wait_until_empty(&fixture.handle).await?;
    Ok(done)
}

async fn time_limit_kills(fixture: &Fixture<'_>) -> Outcome {
    run_into_time_limit(fixture, "sleep 1000").await.map(drop)
}

async fn time_limit_kills_processes_that_ignore_signals(fixture: &Fixture<'_>) -> Outcome {
    run_into_time_limit(fixture, "trap '' TERM INT HUP; sleep 1000; sleep 1000").await.map(drop)
}

async fn time_limit_kills_background_processes(fixture: &Fixture<'_>) -> Outcome {
    run_into_time_limit(fixture, "for n in 1 2 3 4 5; do sleep 1000 & done; wait").await.map(drop)
}

async fn time_limit_kills_new_sessions(fixture: &Fixture<'_>) -> Outcome {
    run_into_time_limit(fixture, "setsid sleep 1000 & setsid sh -c 'sleep 1000; true' & sleep 1000")
        .await
        .map(drop)
}

async fn time_limit_kills_double_forked_daemons(fixture: &Fixture<'_>) -> Outcome {
    let daemon = "import os, time\n\
                  if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n\
                  \x20       os.chdir('/')\n        time.sleep(1000)\n    os._exit(0)\n\
                  os.wait()\ntime.sleep(1000)";
    run_into_time_limit(fixture, &format!("exec python3 -c \"{daemon}\"")).await.map(drop)
}

async fn time_limit_keeps_the_output_so_far(fixture: &Fixture<'_>) -> Outcome {
    let done = run_into_time_limit(fixture, "echo before; sleep 1000; echo after").await?;
    ensure!(done.stdout.text() == "before\n", "{:?}", done.stdout.text());
    Ok(())
}

async fn finished_command_leaves_no_group(fixture: &Fixture<'_>) -> Outcome {
    let done = fixture.run_shell("sleep 1000 & sleep 1000 & exit 3").await?;
    ensure!(done.exit.code == Some(3), "{:?}", done.exit);
    ensure!(done.exit.left_behind >= 2, "left behind: {}", done.exit.left_behind);
    wait_until_empty(&fixture.handle).await
}

async fn reap_all_kills_daemons(fixture: &Fixture<'_>) -> Outcome {
    let mut command = Command::shell("setsid sleep 1000 & sleep 0.2; exit 0");
    command.reap_all = true;
    let done = fixture.handle.run(command).await?;
    ensure!(done.exit.left_behind >= 1, "left behind: {}", done.exit.left_behind);
    wait_until_empty(&fixture.handle).await
}

async fn daemon_holding_the_output_does_not_hang(fixture: &Fixture<'_>) -> Outcome {
    let started = Instant::now();
    let mut command =
        Command::shell("setsid sh -c 'while :; do echo x; sleep 0.1; done' & echo ok");
    command.reap_all = true;
    let done = fixture.handle.run(command).await?;
    ensure!(done.stdout.text().contains("ok\n"), "{:?}", done.stdout.text());
    ensure!(started.elapsed() < KILL_TIMEOUT, "took {:?}", started.elapsed());
    wait_until_empty(&fixture.handle).await
}

async fn commands_run_concurrently(fixture: &Fixture<'_>) -> Outcome {
    let started = Instant::now();
    let all = (0..16).map(|n| async move {
        let done = fixture.handle.run(Command::shell(&format!("sleep 1; echo {n}"))).await?;
        ensure!(done.stdout.text() == format!("{n}\n"), "{n}: {:?}", done.stdout.text());
        Ok(())
    });
    try_join_all(all).await?;
    ensure!(started.elapsed() < KILL_TIMEOUT, "took {:?}", started.elapsed());
    Ok(())
}

async fn concurrent_floods_stay_separate(fixture: &Fixture<'_>) -> Outcome {
    let all = (0..4).map(|n| async move {
        let mut command = Command::shell(&format!("yes {n} | head -c 4000000"));
        command.head_cap = 8 << 20;
        let done = fixture.handle.run(command).await?;
        let own = done.stdout.head.iter().all(|&byte| byte == b'0' + n || byte == b'\n');
        ensure!(
            own && done.stdout.total_bytes == 4_000_000,
            "{n}: {} bytes",
            done.stdout.total_bytes
        );
        Ok(())
    });
    try_join_all(all).await.map(drop)
}

async fn dropped_command_is_cancelled(fixture: &Fixture<'_>) -> Outcome {
    let command = Command::shell("setsid sleep 1000 & sleep 1000");
    let cut = tokio::time::timeout(Duration::from_millis(400), fixture.handle.run(command)).await;
    ensure!(cut.is_err(), "the command ended by itself: {cut:?}");
    wait_until_empty(&fixture.handle).await?;
    expect_success(&fixture.run_shell("true").await?).map(drop)
}

async fn zombies_are_reaped(fixture: &Fixture<'_>) -> Outcome {
    let mut command = Command::shell("for n in 1 2 3 4 5; do setsid true & done; sleep 0.3");
    command.reap_all = true;
    expect_success(&fixture.handle.run(command).await?)?;
    let done =
        fixture.run_shell("grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null; true").await?;
    ensure!(expect_success(&done)?.is_empty(), "{:?}", done.stdout.text());
    Ok(())
}
