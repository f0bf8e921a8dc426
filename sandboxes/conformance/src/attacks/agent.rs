//! Attacks on the agent: its memory, descriptors, channel, settings and user.

use proctor_sandbox_api::{Command, wire::Defence};

use super::list::{Attack, is_up, list, still_answers, withstands};
use crate::{
    Fixture,
    fixture::{Outcome, ensure, path},
};

pub fn attacks() -> Vec<Attack> {
    list![
        agents_memory_is_read [AgentIdentity NotDumpable KillCapability SystemCalls],
        agents_descriptors_are_reached [AgentIdentity NotDumpable KillCapability SystemCalls],
        agents_channel_is_written_to [],
        agent_is_signalled [KillCapability],
        agents_settings_are_changed [AgentIdentity],
        agents_user_is_taken [SystemCalls],
        agents_program_is_replaced [],
    ]
}

async fn agents_memory_is_read(fixture: &Fixture<'_>) -> Outcome {
    withstands(&fixture.handle, include_str!("programs/agent_memory.py"), &[]).await?;
    still_answers(&fixture.handle).await
}

async fn agents_descriptors_are_reached(fixture: &Fixture<'_>) -> Outcome {
    withstands(&fixture.handle, include_str!("programs/agent_descriptors.py"), &[]).await?;
    still_answers(&fixture.handle).await
}

async fn agents_channel_is_written_to(fixture: &Fixture<'_>) -> Outcome {
    withstands(&fixture.handle, include_str!("programs/agent_channel.py"), &[]).await?;
    still_answers(&fixture.handle).await
}

async fn agent_is_signalled(fixture: &Fixture<'_>) -> Outcome {
    // If the sandbox has only one user, the kernel's protection of process 1 remains.
    let apart = if is_up(fixture, Defence::AgentIdentity) { "apart" } else { "together" };
    withstands(&fixture.handle, include_str!("programs/agent_signals.py"), &[apart]).await?;
    still_answers(&fixture.handle).await
}

async fn agents_settings_are_changed(fixture: &Fixture<'_>) -> Outcome {
    fixture.needs("agent_identity").or_else(|skipped| match is_left_out(fixture) {
        true => Ok(()),
        false => Err(skipped),
    })?;
    withstands(&fixture.handle, include_str!("programs/agent_settings.py"), &[]).await?;
    still_answers(&fixture.handle).await
}

/// A test left it out in order to see the attack succeed.
fn is_left_out(fixture: &Fixture<'_>) -> bool {
    fixture.enforcement.not_enforced.iter().any(|entry| entry.ends_with("left out by a test"))
}

async fn agents_user_is_taken(fixture: &Fixture<'_>) -> Outcome {
    fixture.needs("agent_identity")?;
    withstands(&fixture.handle, include_str!("programs/agent_user.py"), &[]).await?;
    let mut command = Command::shell("id -u");
    command.user = Some("65432".to_owned());
    let done = fixture.handle.run(command).await;
    let ran = done.is_ok_and(|done| done.stdout.text().contains("65432"));
    ensure!(!ran, "a command ran as the agent's user");
    // A program that belongs to that user and is set-uid.
    let line = "cp /usr/bin/id /tmp/id && chown 65432 /tmp/id && chmod 4755 /tmp/id && /tmp/id -u";
    let said = fixture.sh(line).await?.stdout.text();
    ensure!(said.trim() != "65432", "a set-uid program became the agent's user");
    still_answers(&fixture.handle).await
}

/// The agent is started from a file; nothing may replace it for the next sandbox.
async fn agents_program_is_replaced(fixture: &Fixture<'_>) -> Outcome {
    let line = "for f in $(find / -xdev -name '*agentd*' -type f 2>/dev/null); do \
                echo evil > $f; done; echo evil > /proc/1/exe; true";
    fixture.sh(line).await?;
    still_answers(&fixture.handle).await?;
    let mut fresh = fixture.open(super::list::small()).await?;
    let answers = still_answers(fresh.handle()).await;
    let evil = fresh.handle().stat(&path("/tmp/id")).await;
    fresh.close().await?;
    ensure!(evil?.is_none(), "a fresh sandbox holds another sandbox's file");
    answers
}
