//! Attacks on the agent: its memory, descriptors, channel, settings and user.

use proctor_sandbox_api::{Command, wire::Defense};

use super::attack::{Attack, assert_no_breach, assert_responsive, is_defense_active, list};
use crate::{
    Fixture,
    fixture::{Outcome, ensure, raw_path},
};

pub fn attacks() -> Vec<Attack> {
    list![
        agent_memory_is_read [AgentIdentity NotDumpable KillCapability SystemCalls],
        agent_descriptors_are_opened [AgentIdentity NotDumpable KillCapability SystemCalls],
        agent_channel_is_written_to [],
        agent_is_signalled [KillCapability],
        agent_settings_are_changed [AgentIdentity],
        agent_user_is_taken_over [SystemCalls],
        agent_program_is_replaced [],
    ]
}

async fn agent_memory_is_read(fixture: &Fixture<'_>) -> Outcome {
    assert_no_breach(&fixture.handle, include_str!("programs/agent_memory.py"), &[]).await?;
    assert_responsive(&fixture.handle).await
}

async fn agent_descriptors_are_opened(fixture: &Fixture<'_>) -> Outcome {
    assert_no_breach(&fixture.handle, include_str!("programs/agent_descriptors.py"), &[]).await?;
    assert_responsive(&fixture.handle).await
}

async fn agent_channel_is_written_to(fixture: &Fixture<'_>) -> Outcome {
    assert_no_breach(&fixture.handle, include_str!("programs/agent_channel.py"), &[]).await?;
    assert_responsive(&fixture.handle).await
}

async fn agent_is_signalled(fixture: &Fixture<'_>) -> Outcome {
    // Even if the sandbox has only one user, the kernel protects process 1.
    let apart =
        if is_defense_active(fixture, Defense::AgentIdentity) { "apart" } else { "together" };
    assert_no_breach(&fixture.handle, include_str!("programs/agent_signals.py"), &[apart]).await?;
    assert_responsive(&fixture.handle).await
}

async fn agent_settings_are_changed(fixture: &Fixture<'_>) -> Outcome {
    fixture.skip_unless_enforced("agent_identity").or_else(|skipped| match is_defense_disabled(
        fixture,
    ) {
        true => Ok(()),
        false => Err(skipped),
    })?;
    assert_no_breach(&fixture.handle, include_str!("programs/agent_settings.py"), &[]).await?;
    assert_responsive(&fixture.handle).await
}

/// Returns whether a test disabled a defense to show that the attack then succeeds.
fn is_defense_disabled(fixture: &Fixture<'_>) -> bool {
    fixture.enforcement.not_enforced.iter().any(|entry| entry.ends_with("disabled by a test"))
}

async fn agent_user_is_taken_over(fixture: &Fixture<'_>) -> Outcome {
    fixture.skip_unless_enforced("agent_identity")?;
    assert_no_breach(&fixture.handle, include_str!("programs/agent_user.py"), &[]).await?;
    let mut command = Command::shell("id -u");
    command.user = Some("65432".to_owned());
    let done = fixture.handle.run(command).await;
    let ran = done.is_ok_and(|done| done.stdout.text().contains("65432"));
    ensure!(!ran, "a command ran as the agent's user");
    // Try to run a set-uid program that belongs to the agent's user.
    let line = "cp /usr/bin/id /tmp/id && chown 65432 /tmp/id && chmod 4755 /tmp/id && /tmp/id -u";
    let said = fixture.run_shell(line).await?.stdout.text();
    ensure!(said.trim() != "65432", "a set-uid program became the agent's user");
    assert_responsive(&fixture.handle).await
}

/// The agent's program is a file, and no sandbox may be able to replace it for the next sandbox.
async fn agent_program_is_replaced(fixture: &Fixture<'_>) -> Outcome {
    let line = "for f in $(find / -xdev -name '*agentd*' -type f 2>/dev/null); do \
                echo evil > $f; done; echo evil > /proc/1/exe; true";
    fixture.run_shell(line).await?;
    assert_responsive(&fixture.handle).await?;
    let mut fresh = fixture.open(super::attack::small_limits()).await?;
    let answers = assert_responsive(fresh.handle()).await;
    let evil = fresh.handle().stat(&raw_path("/tmp/id")).await;
    fresh.close().await?;
    ensure!(evil?.is_none(), "a new sandbox contains another sandbox's file");
    answers
}
