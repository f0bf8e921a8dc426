use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use serde_json::Value;

use super::{
    Tool, ToolContext, ToolError, ToolOutput, shell_spec::ShellArguments, specs::SHELL,
    tool::parse_arguments,
};
use crate::{
    command::{ShellSettings, run_line},
    prompts::Prompts,
    schema::strict_schema,
};

/// Runs commands. No state is kept between them: each command gets a new shell in the work
/// directory.
pub(crate) struct Shell {
    pub(crate) prompts: Arc<Prompts>,
    pub(crate) settings: ShellSettings,
}

#[async_trait]
impl Tool for Shell {
    fn name(&self) -> &'static str {
        SHELL
    }

    async fn call(
        &mut self,
        context: &ToolContext,
        arguments: Value,
    ) -> Result<ToolOutput, ToolError> {
        let schema = strict_schema::<ShellArguments>();
        let arguments: ShellArguments = parse_arguments(SHELL, &schema, arguments)?;
        let limit = match arguments.timeout {
            Some(0) => {
                let why = "The arguments of `shell` could not be read: field `timeout`: \
                           must be at least 1 second, or null";
                return Err(ToolError::Malformed(why.into()));
            }
            Some(seconds) => context.command_timeout.min(Duration::from_secs(seconds)),
            None => context.command_timeout,
        };
        run_line(context, &self.prompts, self.settings, &arguments.command, limit).await
    }
}
