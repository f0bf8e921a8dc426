//! Attacks on the CPU and the process table.

use std::time::Duration;

use proctor_sandbox_api::Command;

use super::attack::{Attack, assert_responsive, attack_command, list, snapshot_request};
use crate::{
    Fixture,
    fixture::{Outcome, ensure, expect_success, raw_path, wait_until_empty},
};

pub fn attacks() -> Vec<Attack> {
    list![
        fork_bomb_fills_the_sandbox [],
        swarm_outlives_its_command [Eviction],
        threads_fill_the_sandbox [],
        processor_is_hogged [],
    ]
}

async fn fork_bomb_fills_the_sandbox(fixture: &Fixture<'_>) -> Outcome {
    fixture.skip_unless_enforced("processes")?;
    let bomb = Command::shell("b() { b | b & }; (b); while :; do :; done")
        .time_limit(Duration::from_secs(2));
    let done = fixture.handle.run(bomb).await?;
    // On a slow machine, the memory limit may kill the fork bomb before its time limit does.
    let was_killed = done.exit.timed_out || done.exit.signal == Some(9);
    ensure!(was_killed, "the fork bomb ended by itself: {:?}", done.exit);
    wait_until_empty(&fixture.handle).await?;
    assert_responsive(&fixture.handle).await
}

/// The agent's own threads count as processes too. A full sandbox must not stop the agent.
/// Otherwise, a model could turn any trial into a sandbox fault.
async fn swarm_outlives_its_command(fixture: &Fixture<'_>) -> Outcome {
    fixture.skip_unless_enforced("processes")?;
    let done = fixture.handle.run(attack_command(include_str!("programs/swarm.py"), &[])).await?;
    let said = expect_success(&done)?;
    let alive: u32 = said.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
    ensure!(alive >= 50, "the swarm is too small: {said:?}");
    assert_responsive(&fixture.handle).await?;
    fixture.handle.write(&raw_path("/testbed/after"), b"x", None).await?;
    fixture.handle.snapshot(snapshot_request("/testbed")).await?;
    Ok(())
}

async fn threads_fill_the_sandbox(fixture: &Fixture<'_>) -> Outcome {
    fixture.skip_unless_enforced("processes")?;
    let text = "import threading\nn = 0\n\
        try:\n    while n < 2000:\n\
        \x20       threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); n += 1\n\
        except RuntimeError: pass\n\
        if n >= 100: breach('started', n, 'threads')\n";
    let done =
        fixture.handle.run(attack_command(&format!("{text}sys.stdout.flush()"), &[])).await?;
    let said = done.stdout.text();
    ensure!(said == "done\n", "{said:?} {}", done.stderr.text());
    assert_responsive(&fixture.handle).await
}

async fn processor_is_hogged(fixture: &Fixture<'_>) -> Outcome {
    let hogs = "for n in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done; \
                renice -n -20 -p $$ >/dev/null 2>&1 && echo raised; sleep 60";
    let done = fixture.handle.run(Command::shell(hogs).time_limit(Duration::from_secs(2))).await?;
    ensure!(done.exit.timed_out, "{:?}", done.exit);
    ensure!(!done.stdout.text().contains("raised"), "a process raised its own priority");
    wait_until_empty(&fixture.handle).await
}
