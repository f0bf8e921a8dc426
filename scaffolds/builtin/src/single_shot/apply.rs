//! Applies a response to the work directory.

use std::{cell::RefCell, sync::Arc};

use proctor_answers::{ApplyOutcome, apply, extract_patch, natural};
use proctor_patch::{FilePatch, Patch};
use proctor_sandbox_api::{Command, SandboxError, SandboxHandle, wire::RawPath};
use proctor_scaffold_api::{InitialTree, Material, Session, Stop, TaskBrief};
use proctor_types::Fault;

use super::{
    evidence::{AnswerRecord, CommandAttempt},
    settings::Settings,
};

/// Where to store the patch for the apply commands. The path is outside the work directory.
const PATCH_FILE: &str = "/tmp/answer.diff";

/// Parses the edits of a natural response and applies those that match.
pub(super) async fn apply_natural(
    session: &mut dyn Session,
    settings: &Settings,
    tree: &dyn InitialTree,
    text: &str,
    record: &mut AnswerRecord,
) -> Result<(), Stop> {
    let read = natural::parse_answer(text);
    let (applied, patch) = edits_to_patch(&read.edits, settings, tree)?;
    record.edits = applied.edits;
    record.problems = read.problems;
    if patch.is_empty() {
        return Ok(());
    }
    match session.try_patch(&patch).await? {
        Ok(()) => {
            record.applied = true;
            record.whole = record.problems.is_empty()
                && record
                    .edits
                    .iter()
                    .all(|edit| edit.status == proctor_answers::EditResult::Applied);
        }
        Err(why) => {
            record.applied_by.push(CommandAttempt { command: "write the files".into(), why })
        }
    }
    Ok(())
}

/// Returns the result of applying the edits, and the equivalent patch.
fn edits_to_patch(
    edits: &[natural::Edit],
    settings: &Settings,
    tree: &dyn InitialTree,
) -> Result<(ApplyOutcome, Vec<u8>), Fault> {
    let broken = RefCell::new(None);
    let current = |path: &str| {
        let mode = tree.mode(path)?;
        let bytes = tree.read(path).unwrap_or_else(|fault| {
            broken.replace(Some(fault));
            None
        });
        bytes.map(|bytes| (mode, bytes))
    };
    let applied = apply(edits, settings.matching, &current);
    let mut patch = Vec::new();
    for (path, after) in &applied.files {
        FilePatch::from_sides(&path.as_str().into(), current(path), after.clone())
            .write(&mut patch);
    }
    match broken.take() {
        Some(fault) => Err(fault),
        None => Ok((applied, patch)),
    }
}

/// Applies a response's patch as the benchmark's harness does: runs its commands in order until one
/// succeeds. In place of the first command, `git apply`, Proctor runs its own code on the host.
pub(super) async fn apply_patch(
    session: &mut dyn Session,
    material: &Material,
    tree: &dyn InitialTree,
    text: &str,
    record: &mut AnswerRecord,
) -> Result<(), Stop> {
    let Some(patch) = extract_patch(text) else { return Ok(()) };
    let first = "git apply (Proctor's own)".to_owned();
    let why = match session.try_patch(patch.as_bytes()).await? {
        Ok(()) => String::new(),
        Err(why) => why,
    };
    record.applied = why.is_empty();
    record.applied_by.push(CommandAttempt { command: first, why });
    let (handle, brief) = (Arc::clone(session.sandbox()), session.brief().clone());
    for command in material.apply_commands.iter().skip(1) {
        if record.applied {
            break;
        }
        let why = run_apply_command(&handle, &brief, command, patch.as_bytes()).await?;
        record.applied = why.is_empty();
        record.applied_by.push(CommandAttempt { command: command.clone(), why });
    }
    record.whole = record.applied;
    if record.applied_by.len() > 1 {
        clean_up(&handle, &brief, tree, &Patch::parse(patch.as_bytes()), record.applied).await?;
    }
    Ok(())
}

/// Runs an apply command. Returns its error, or an empty string if it applied the patch.
async fn run_apply_command(
    handle: &SandboxHandle,
    brief: &TaskBrief,
    command: &str,
    patch: &[u8],
) -> Result<String, Stop> {
    let file = RawPath::from(PATCH_FILE);
    let broken = |error: SandboxError| Stop::Fault(error.to_fault("applying the response"));
    handle.write(&file, patch, Some(0o644)).await.map_err(broken)?;
    let mut line = Command::shell(&format!("{command} {PATCH_FILE} 2>&1"))
        .cwd(brief.workdir.as_str())
        .time_limit(brief.command_timeout);
    for (key, value) in &brief.env {
        line = line.env(key, value.as_str());
    }
    let done = handle.run(line).await.map_err(broken)?;
    handle.remove(&file).await.map_err(broken)?;
    if done.success() {
        return Ok(String::new());
    }
    let said = done.stdout.text();
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("the command failed");
    Ok(last.chars().take(300).collect())
}

/// Removes files that the commands left behind. If no command applied the patch, also reverts their
/// changes.
async fn clean_up(
    handle: &SandboxHandle,
    brief: &TaskBrief,
    tree: &dyn InitialTree,
    patch: &Patch,
    is_applied: bool,
) -> Result<(), Stop> {
    let root = RawPath::from(brief.workdir.as_str());
    let full =
        |path: &str| RawPath::from(format!("{}/{path}", brief.workdir.trim_end_matches('/')));
    for name in patch.paths() {
        if proctor_patch::check_path(&name).is_err() {
            continue;
        }
        let name = name.to_string();
        let mut paths = vec![format!("{name}.rej"), format!("{name}.orig")];
        if !is_applied {
            paths.push(name);
        }
        for path in paths {
            let before = match tree.mode(&path) {
                Some(mode) => tree.read(&path)?.map(|bytes| (mode, bytes)),
                None => None,
            };
            // Ignore rejected paths. They come from the patch itself, so no command can have
            // written to them.
            let done = match before {
                Some((mode, bytes)) => {
                    handle.write_beneath(&root, &full(&path), &bytes, Some(mode & 0o777)).await
                }
                None => handle.remove_beneath(&root, &full(&path)).await,
            };
            if let Err(error) = done
                && error.refusal_kind().is_none()
            {
                return Err(error.to_fault("cleaning up after the response").into());
            }
        }
    }
    Ok(())
}
