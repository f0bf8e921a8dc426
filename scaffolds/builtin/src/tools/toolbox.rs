use std::{sync::Arc, time::Instant};

use proctor_scaffold_api::{FinishedToolCall, Session, Stop};
use proctor_types::ToolCall;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Tool, ToolContext, ToolError, ToolOutput, arguments,
    edit::{Edit, EditSettings},
    name_prefix::strip_name_prefix,
    search::{Search, SearchSettings},
    shell::Shell,
    specs::SUBMIT,
    submit::Submit,
};
use crate::{command::ShellSettings, prompts::Prompts};

/// The settings in `prompts/tools/manifest.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolsSettings {
    pub(crate) nudge_limit: u32,
    pub(crate) shell: ShellSettings,
    pub(crate) edit: EditSettings,
    pub(crate) search: SearchSettings,
}

/// The tools of one trial and their state, which is the edits that can be undone.
pub(crate) struct Toolbox {
    tools: Vec<Box<dyn Tool>>,
    context: ToolContext,
}

/// The result of one tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCallResult {
    /// The text shown to the model.
    pub shown_output: String,
    /// The exit status, if the tool ran a command that was not killed.
    pub exit_status: Option<i32>,
    /// Whether the call submitted the work.
    pub is_submitted: bool,
}

impl Toolbox {
    pub(crate) fn new(
        context: ToolContext,
        prompts: &Arc<Prompts>,
        settings: &ToolsSettings,
    ) -> Self {
        let tools: Vec<Box<dyn Tool>> = vec![
            Box::new(Shell { prompts: prompts.clone(), settings: settings.shell }),
            Box::new(Edit::new(prompts.clone(), settings.edit)),
            Box::new(Search { prompts: prompts.clone(), settings: settings.search }),
            Box::new(Submit { prompts: prompts.clone() }),
        ];
        Self { tools, context }
    }

    /// Returns the name of the tool that a call uses, without a proxy's prefix.
    fn tool_name<'a>(&self, call: &'a ToolCall) -> &'a str {
        let tools: Vec<&'static str> = self.tools.iter().map(|tool| tool.name()).collect();
        strip_name_prefix(&call.name, &tools)
    }

    /// Records the call, runs it, and records the result. The record of the call contains the name
    /// of the tool, and the record of the response the name as the endpoint sent it.
    pub(crate) async fn call(
        &mut self,
        session: &mut dyn Session,
        call: &ToolCall,
    ) -> Result<ToolCallResult, Stop> {
        let name = self.tool_name(call);
        if let Some(done) = session.recorded_result(&call.id, name).await? {
            if let Some(edited) = &done.file_edit {
                self.tools.iter_mut().for_each(|tool| tool.restore_edit(edited));
            }
            let submitted = done.name == SUBMIT && !done.is_malformed;
            return Ok(ToolCallResult {
                shown_output: done.shown_output,
                exit_status: done.exit_status,
                is_submitted: submitted,
            });
        }
        let read = parse_call_arguments(call);
        let recorded = read.clone().unwrap_or_else(|_| Value::from(call.arguments.as_str()));
        session.record_tool_call(&call.id, name, recorded).await?;
        let start = Instant::now();
        let done = match read {
            Ok(arguments) => self.run_tool(name, arguments).await,
            Err(error) => Err(error),
        };
        let (output, malformed) = match done {
            Ok(output) => (output, false),
            Err(ToolError::Tell(text)) => (ToolOutput::from_text(text), false),
            Err(ToolError::Malformed(text)) => (ToolOutput::from_text(text), true),
            Err(ToolError::Stop(stop)) => return Err(stop),
        };
        let called = ToolCallResult {
            shown_output: output.shown_output.clone(),
            exit_status: output.exit_status,
            is_submitted: output.is_submitted,
        };
        let done = FinishedToolCall {
            call_id: call.id.clone(),
            name: name.to_owned(),
            shown_output: output.shown_output,
            full_output: output.full_output,
            exit_status: output.exit_status,
            duration: start.elapsed(),
            is_malformed: malformed,
            file_edit: output.file_edit,
        };
        session.record_tool_result(done).await?;
        Ok(called)
    }

    /// Records a call and its result without running the call.
    pub(crate) async fn skip_call(
        &self,
        session: &mut dyn Session,
        call: &ToolCall,
        shown_output: String,
    ) -> Result<(), Stop> {
        let name = self.tool_name(call);
        if session.recorded_result(&call.id, name).await?.is_some() {
            return Ok(());
        }
        let recorded =
            parse_call_arguments(call).unwrap_or_else(|_| Value::from(call.arguments.as_str()));
        session.record_tool_call(&call.id, name, recorded).await?;
        let (call_id, name) = (call.id.clone(), name.to_owned());
        session
            .record_tool_result(FinishedToolCall {
                call_id,
                name,
                shown_output,
                ..FinishedToolCall::default()
            })
            .await
    }

    async fn run_tool(&mut self, name: &str, arguments: Value) -> Result<ToolOutput, ToolError> {
        match self.tools.iter_mut().find(|tool| tool.name() == name) {
            Some(tool) => tool.call(&self.context, arguments).await,
            None => {
                let names: Vec<_> =
                    self.tools.iter().map(|tool| format!("`{}`", tool.name())).collect();
                Err(ToolError::Malformed(format!(
                    "The tool `{name}` does not exist. The tools are {}.",
                    names.join(", ")
                )))
            }
        }
    }
}

fn parse_call_arguments(call: &ToolCall) -> Result<Value, ToolError> {
    arguments::parse(call).map_err(|error| {
        ToolError::Malformed(format!(
            "The arguments of `{}` are not valid JSON: {error}. Write one JSON object.",
            call.name
        ))
    })
}
