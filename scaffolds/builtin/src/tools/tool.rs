use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use proctor_sandbox_api::{SandboxError, SandboxHandle, wire::RawPath};
use proctor_scaffold_api::{FileEdit, Session};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{ToolError, arguments};
use crate::schema::describe_schema;

/// The implementation of a tool in one trial. The arguments that the model sees are in the tool's
/// `_spec` file.
#[async_trait]
pub(crate) trait Tool: Send + Sync {
    fn name(&self) -> &'static str;

    /// Runs the tool. The arguments may be any JSON. If they are not what the tool expects, it must
    /// return [`ToolError::Malformed`].
    async fn call(
        &mut self,
        context: &ToolContext,
        arguments: Value,
    ) -> Result<ToolOutput, ToolError>;

    /// Restores the undo entry of an edit that was made before the trial was interrupted.
    fn restore_edit(&mut self, _edit: &FileEdit) {}
}

/// What a tool needs to know about its trial.
#[derive(Clone)]
pub(crate) struct ToolContext {
    pub(crate) handle: Arc<SandboxHandle>,
    pub(crate) workdir: String,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) user: Option<String>,
    /// The time limit for a command.
    pub(crate) command_timeout: Duration,
}

impl ToolContext {
    pub(crate) fn from_session(session: &dyn Session) -> Self {
        let brief = session.brief();
        Self {
            handle: session.sandbox().clone(),
            workdir: brief.workdir.clone(),
            env: brief.env.iter().cloned().collect(),
            user: brief.user.clone(),
            command_timeout: brief.command_timeout,
        }
    }

    /// Writes a whole file. The user who runs commands owns a new file.
    pub(crate) async fn write_file(
        &self,
        path: &RawPath,
        bytes: &[u8],
    ) -> Result<(), SandboxError> {
        self.handle.write_as(path, bytes, None, self.user.as_deref()).await
    }

    /// Resolves a path that the model wrote. A relative path starts at the work directory.
    pub(crate) fn resolve(&self, path: &str) -> RawPath {
        if path.starts_with('/') {
            return RawPath::from(path);
        }
        let path = path.strip_prefix("./").unwrap_or(path);
        if path.is_empty() || path == "." {
            return RawPath::from(self.workdir.as_str());
        }
        RawPath::from(format!("{}/{path}", self.workdir.trim_end_matches('/')))
    }
}

/// The result of a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ToolOutput {
    pub(crate) shown_output: String,
    /// All of the output that was captured, if `shown_output` is truncated.
    pub(crate) full_output: Option<Vec<u8>>,
    pub(crate) exit_status: Option<i32>,
    /// Whether the call submitted the work.
    pub(crate) is_submitted: bool,
    pub(crate) file_edit: Option<FileEdit>,
}

impl ToolOutput {
    pub(crate) fn from_text(text: impl Into<String>) -> Self {
        Self { shown_output: text.into(), ..Self::default() }
    }
}

/// Parses a tool's arguments. If that fails, the message to the model names the wrong field and the
/// expected type.
pub(crate) fn parse_arguments<T: DeserializeOwned>(
    name: &str,
    schema: &Value,
    arguments: Value,
) -> Result<T, ToolError> {
    // If parsing still fails, report the error for the arguments as the server sent them.
    let typed = arguments::coerce_types(schema, &arguments);
    let typed = typed.and_then(|typed| serde_json::from_value(typed).ok());
    if let Some(read) = typed {
        return Ok(read);
    }
    serde_path_to_error::deserialize(arguments).map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." { String::new() } else { format!("field `{path}`: ") };
        ToolError::Malformed(format!(
            "The arguments of `{name}` could not be read: {place}{}. Expected: {}",
            error.inner(),
            describe_schema(schema)
        ))
    })
}
