//! The scaffold `bash`: one fenced command per response, for models without function calling.
//!
//! ```text
//! answer = text block text          ; exactly one block; other fenced blocks don't count, nor does
//!                                   ; reasoning before the answer
//! block  = open line* close
//! open   = ticks "bash"             ; ticks: three or more backticks at the start of a line
//! close  = ticks                    ; at least as many as opened, and nothing else on the line
//! line   = any line that is not close
//! submit = a block whose only non-blank line is `proctor-submit`
//! ```
//!
//! Only the model's own command text can submit, so a program's output cannot end the trial. If
//! `proctor-submit` is among other lines, the block is rejected, so that no block is run in part.

use std::{path::Path, sync::Arc, time::Instant};

use async_trait::async_trait;
use proctor_scaffold_api::{
    Finish, FinishedToolCall, PromptFolderError, PromptOverlay, Scaffold, Session, Stop,
};
use proctor_types::ExitCause;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

mod grammar;

use crate::{
    PromptError,
    command::{ShellSettings, run_line},
    conversation::{Conversation, is_paused, is_truncated},
    prompts::Prompts,
    tools::{SUBMIT, ToolCallResult, ToolContext, ToolError, ToolOutput},
};
use grammar::{Action, parse};

/// The tool name that the record uses for blocks.
pub(crate) const BASH: &str = "bash";
/// A factor of the arm. Increment it when the grammar or the wording of this crate's messages
/// changes.
const REVISION: u32 = 2;

/// The settings in `prompts/bash/manifest.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BashSettings {
    nudge_limit: u32,
    shell: ShellSettings,
}

/// The scaffold that runs one fenced command per response.
#[derive(Debug)]
pub struct Bash {
    prompts: Arc<Prompts>,
    settings: BashSettings,
}

impl Bash {
    /// # Errors
    /// See [`Prompts::load`].
    pub fn load(prompts: Option<&PromptOverlay>) -> Result<Self, PromptError> {
        let prompts = Prompts::load("bash", prompts)?;
        let settings = prompts.settings()?;
        Ok(Self { prompts: Arc::new(prompts), settings })
    }

    /// Records a block, runs it, and records its result.
    pub(crate) async fn run_block(
        &self,
        session: &mut dyn Session,
        call_id: &str,
        line: &str,
    ) -> Result<ToolCallResult, Stop> {
        if let Some(done) = session.recorded_result(call_id, BASH).await? {
            let (shown, exit_status) = (done.shown_output, done.exit_status);
            return Ok(ToolCallResult { shown_output: shown, exit_status, is_submitted: false });
        }
        session.record_tool_call(call_id, BASH, json!({ "command": line })).await?;
        let context = ToolContext::from_session(session);
        let start = Instant::now();
        let shell = self.settings.shell;
        let done = run_line(&context, &self.prompts, shell, line, context.command_timeout).await;
        let output = match done {
            Ok(output) => output,
            Err(ToolError::Tell(text) | ToolError::Malformed(text)) => ToolOutput::from_text(text),
            Err(ToolError::Stop(stop)) => return Err(stop),
        };
        let called = ToolCallResult {
            shown_output: output.shown_output.clone(),
            exit_status: output.exit_status,
            is_submitted: false,
        };
        session
            .record_tool_result(FinishedToolCall {
                call_id: call_id.to_owned(),
                name: BASH.to_owned(),
                shown_output: output.shown_output,
                full_output: output.full_output,
                exit_status: output.exit_status,
                duration: start.elapsed(),
                is_malformed: false,
                file_edit: None,
            })
            .await?;
        Ok(called)
    }

    async fn submit(&self, session: &mut dyn Session, call_id: &str) -> Result<(), Stop> {
        if session.recorded_result(call_id, SUBMIT).await?.is_some() {
            return Ok(());
        }
        session.record_tool_call(call_id, SUBMIT, json!({})).await?;
        let shown = self.prompts.render("submitted", ())?;
        let (call_id, name) = (call_id.to_owned(), SUBMIT.to_owned());
        session
            .record_tool_result(FinishedToolCall {
                call_id,
                name,
                shown_output: shown,
                ..FinishedToolCall::default()
            })
            .await
    }

    /// Records a response without a valid command.
    async fn record_malformed_response(
        &self,
        session: &mut dyn Session,
        call_id: &str,
        answer: &str,
        shown_output: &str,
    ) -> Result<(), Stop> {
        if session.recorded_result(call_id, BASH).await?.is_some() {
            return Ok(());
        }
        session.record_tool_call(call_id, BASH, Value::from(answer)).await?;
        session
            .record_tool_result(FinishedToolCall {
                call_id: call_id.to_owned(),
                name: BASH.to_owned(),
                shown_output: shown_output.to_owned(),
                is_malformed: true,
                ..FinishedToolCall::default()
            })
            .await
    }
}

#[async_trait]
impl Scaffold for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn factors(&self) -> Value {
        let mut factors = self.prompts.factors();
        factors["revision"] = json!(REVISION);
        factors
    }

    fn with_prompts(&self, folder: &Path) -> Result<Arc<dyn Scaffold>, PromptFolderError> {
        let over = Prompts::read_overlay(folder, &["bash"])?;
        Ok(Arc::new(Self::load(Some(&over))?))
    }

    fn needs_model(&self) -> bool {
        true
    }

    fn is_resumable(&self) -> bool {
        true
    }

    /// Repeats: call the model, run the command, return its output.
    async fn drive(&self, session: &mut dyn Session) -> Result<Finish, Stop> {
        let mut talk = Conversation::start(&self.prompts, session.brief(), Vec::new())?;
        let mut unread = 0;
        for step in 1_u64.. {
            if let Some(why) = talk.context_overflow_reason(session) {
                return Ok(Finish::exit(why));
            }
            let answer = talk.ask(session).await?;
            if is_paused(&answer) {
                continue;
            }
            let call_id = format!("bash-{step}");
            match parse(&answer.content) {
                Ok(Action::Submit) => {
                    self.submit(session, &call_id).await?;
                    return Ok(Finish::Submitted);
                }
                Ok(Action::Run(line)) => {
                    unread = 0;
                    let called = self.run_block(session, &call_id, &line).await?;
                    talk.push_user_message(called.shown_output);
                }
                Err(problem) => {
                    let with = json!({ "problem": problem, "length": is_truncated(&answer) });
                    let shown = self.prompts.render("format", with)?;
                    self.record_malformed_response(session, &call_id, &answer.content, &shown)
                        .await?;
                    talk.push_user_message(shown);
                    unread += 1;
                    if unread >= self.settings.nudge_limit {
                        let why =
                            format!("{unread} responses in a row without exactly one command");
                        return Ok(Finish::Exited { cause: ExitCause::EmptyTurn, reason: why });
                    }
                }
            }
        }
        // Unreachable in practice, because the budget ends a trial long before.
        Ok(Finish::exit("too many steps"))
    }
}
