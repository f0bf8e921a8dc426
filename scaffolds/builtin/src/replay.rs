//! The scaffold `replay`: re-runs the actions of a recorded trajectory with the same handlers.
//!
//! Calls no model. If a result differs from the record, the difference is noted but not corrected:
//! it shows that the task, the sandbox or the tools have changed.

use std::{path::Path, sync::Arc};

use async_trait::async_trait;
use proctor_scaffold_api::{Finish, PromptFolderError, PromptOverlay, Scaffold, Session, Stop};
use proctor_types::ToolCall;
use serde_json::{Map, Value, json};

mod recording;

use crate::{
    Bash, PromptError, Tools,
    bash::BASH,
    prompts::Prompts,
    tools::{ToolCallResult, Toolbox},
};
use recording::{RecordedAction, RecordedCall, Recording};

/// Maximum number of characters to record of a line that differs.
const MAX_LINE_CHARS: usize = 300;

/// Re-runs the actions of the trajectory in `brief.replay`.
#[derive(Debug)]
pub struct Replay {
    tools: Tools,
    bash: Bash,
}

impl Replay {
    /// # Errors
    /// See [`Prompts::load`](crate::Prompts::load).
    pub fn load(prompts: Option<&PromptOverlay>) -> Result<Self, PromptError> {
        Ok(Self { tools: Tools::load(prompts)?, bash: Bash::load(prompts)? })
    }

    async fn run_call(
        &self,
        session: &mut dyn Session,
        toolbox: &mut Toolbox,
        call: &ToolCall,
        arguments: &Value,
    ) -> Result<ToolCallResult, Stop> {
        match (call.name.as_str(), arguments["command"].as_str()) {
            (BASH, Some(line)) => self.bash.run_block(session, &call.id, line).await,
            _ => toolbox.call(session, call).await,
        }
    }
}

#[async_trait]
impl Scaffold for Replay {
    fn name(&self) -> &'static str {
        "replay"
    }

    /// Returns the factors. They include the settings of the handlers, which affect the outputs
    /// that are compared.
    fn factors(&self) -> Value {
        json!({ "tools": self.tools.factors(), "bash": self.bash.factors() })
    }

    fn with_prompts(&self, folder: &Path) -> Result<Arc<dyn Scaffold>, PromptFolderError> {
        let over = Prompts::read_overlay(folder, &["tools", "bash"])?;
        Ok(Arc::new(Self::load(Some(&over))?))
    }

    fn needs_model(&self) -> bool {
        false
    }

    async fn drive(&self, session: &mut dyn Session) -> Result<Finish, Stop> {
        let Some(path) = session.brief().replay.clone() else {
            return Ok(Finish::exit("no trajectory to replay"));
        };
        let recording = Recording::read(&path).await?;
        let mut toolbox = self.tools.toolbox(session);
        let (mut differing, mut run, mut skipped, mut submitted) = (0_u64, 0_u64, 0_u64, false);
        let mut in_step = false;
        for act in &recording.actions {
            match act {
                RecordedAction::Response => {
                    if in_step {
                        session.end_step().await?;
                    }
                    in_step = true;
                }
                // Skip malformed calls: they had no effect, and only the text of their result could
                // differ.
                RecordedAction::Call(recorded) if recorded.is_malformed => skipped += 1,
                // Skip calls after the submission. The original trial did not run them.
                RecordedAction::Call(_) if submitted => skipped += 1,
                RecordedAction::Call(recorded) => {
                    let call = recorded.to_tool_call();
                    let called =
                        self.run_call(session, &mut toolbox, &call, &recorded.arguments).await?;
                    run += 1;
                    submitted = called.is_submitted;
                    if let Some(note) = find_difference(recorded, &called) {
                        differing += 1;
                        session.note(note).await?;
                    }
                }
            }
        }
        if in_step {
            session.end_step().await?;
        }
        let summary = json!({
            "replay": "finished", "calls": run, "differing": differing, "skipped": skipped,
            "unreadable_lines": recording.unreadable_lines,
        });
        session.note(object(summary)).await?;
        Ok(match recording.ending {
            Some(ending) if ending == "submitted" => Finish::Submitted,
            Some(ending) => Finish::exit(format!("the recorded trial ended with {ending}")),
            None if submitted => Finish::Submitted,
            None => Finish::exit("the recorded trial has no end"),
        })
    }
}

/// Returns the first line that differs, or the exit status. Returns `None` if nothing differs or no
/// output was recorded.
fn find_difference(
    recorded_call: &RecordedCall,
    call_result: &ToolCallResult,
) -> Option<Map<String, Value>> {
    let shown = recorded_call.shown_output.as_ref()?;
    let status = recorded_call.exit_status != call_result.exit_status;
    if *shown == call_result.shown_output && !status {
        return None;
    }
    let (mut before, mut now) = (shown.lines(), call_result.shown_output.lines());
    let (line, before, now) = (1_u64..)
        .map(|line| (line, before.next(), now.next()))
        .find(|(_, before, now)| before != now || before.is_none())?;
    Some(object(json!({
        "replay": "difference", "call_id": recorded_call.call_id, "name": recorded_call.name, "line": line,
        "recorded": before.map(truncate_line), "now": now.map(truncate_line),
        "recorded_exit_status": recorded_call.exit_status, "now_exit_status": call_result.exit_status,
    })))
}

fn truncate_line(line: &str) -> &str {
    line.char_indices().nth(MAX_LINE_CHARS).map_or(line, |(end, _)| &line[..end])
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => Map::from_iter([("note".to_owned(), other)]),
    }
}
