use std::{path::Path, sync::Arc};

use async_trait::async_trait;
use proctor_scaffold_api::{Finish, PromptFolderError, PromptOverlay, Scaffold, Session, Stop};
use proctor_types::{ExitCause, ModelResponse, ToolSpec};
use serde_json::{Value, json};

use super::{ToolContext, Toolbox, ToolsSettings, specs};
use crate::{
    PromptError,
    conversation::{Conversation, is_paused, is_truncated},
    prompts::Prompts,
};

/// A factor of the arm. Increment it when the wording of this crate's tool messages changes,
/// because the model reads them like prompts.
pub(crate) const REVISION: u32 = 2;

/// The scaffold for models with function calling.
#[derive(Debug)]
pub struct Tools {
    prompts: Arc<Prompts>,
    settings: ToolsSettings,
}

impl Tools {
    /// # Errors
    /// See [`Prompts::load`].
    pub fn load(prompts: Option<&PromptOverlay>) -> Result<Self, PromptError> {
        let prompts = Prompts::load("tools", prompts)?;
        let settings = prompts.settings()?;
        Ok(Self { prompts: Arc::new(prompts), settings })
    }

    pub(crate) fn specs(&self) -> Vec<ToolSpec> {
        specs(&self.prompts)
    }

    pub(crate) fn toolbox(&self, session: &dyn Session) -> Toolbox {
        Toolbox::new(ToolContext::from_session(session), &self.prompts, &self.settings)
    }

    /// Runs the calls of one response in order. Returns `true` if one of them submitted the work.
    /// Later calls in the response get a result but are not run.
    async fn run_calls(
        &self,
        session: &mut dyn Session,
        toolbox: &mut Toolbox,
        conversation: &mut Conversation,
        response: &ModelResponse,
    ) -> Result<bool, Stop> {
        let mut submitted = false;
        for call in &response.tool_calls {
            if submitted {
                let shown = self.prompts.render("not_run", ())?;
                toolbox.skip_call(session, call, shown).await?;
                continue;
            }
            let called = toolbox.call(session, call).await?;
            submitted = called.is_submitted;
            conversation.push_tool_result(&call.id, called.shown_output);
        }
        Ok(submitted)
    }
}

#[async_trait]
impl Scaffold for Tools {
    fn name(&self) -> &'static str {
        "tools"
    }

    fn factors(&self) -> Value {
        let mut factors = self.prompts.factors();
        factors["tools"] = json!(specs(&self.prompts));
        factors["revision"] = json!(REVISION);
        factors
    }

    fn with_prompts(&self, folder: &Path) -> Result<Arc<dyn Scaffold>, PromptFolderError> {
        let over = Prompts::read_overlay(folder, &["tools"])?;
        Ok(Arc::new(Self::load(Some(&over))?))
    }

    fn needs_model(&self) -> bool {
        true
    }

    fn needs_tools(&self) -> bool {
        true
    }

    fn is_resumable(&self) -> bool {
        true
    }

    /// Repeats: call the model, run its tool calls, return the results.
    async fn drive(&self, session: &mut dyn Session) -> Result<Finish, Stop> {
        let mut talk = Conversation::start(&self.prompts, session.brief(), specs(&self.prompts))?;
        let mut toolbox = self.toolbox(session);
        let mut idle = 0;
        loop {
            if let Some(why) = talk.context_overflow_reason(session) {
                return Ok(Finish::exit(why));
            }
            let answer = talk.ask(session).await?;
            if is_paused(&answer) {
                continue;
            }
            if answer.tool_calls.is_empty() {
                idle += 1;
                if idle >= self.settings.nudge_limit {
                    let why = format!("{idle} responses in a row without a tool call");
                    return Ok(Finish::Exited { cause: ExitCause::EmptyTurn, reason: why });
                }
                let length = is_truncated(&answer);
                talk.push_user_message(self.prompts.render("nudge", json!({ "length": length }))?);
                continue;
            }
            idle = 0;
            if self.run_calls(session, &mut toolbox, &mut talk, &answer).await? {
                return Ok(Finish::Submitted);
            }
            if is_truncated(&answer) {
                talk.push_user_message(self.prompts.render("length", ())?);
            }
        }
    }
}
