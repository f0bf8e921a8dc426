use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::{
    Tool, ToolContext, ToolError, ToolOutput, specs::SUBMIT, submit_spec::SubmitArguments,
    tool::parse_arguments,
};
use crate::{prompts::Prompts, schema::strict_schema};

/// Submits the work. The loop ends after the call has its result.
pub(crate) struct Submit {
    pub(crate) prompts: Arc<Prompts>,
}

#[async_trait]
impl Tool for Submit {
    fn name(&self) -> &'static str {
        SUBMIT
    }

    async fn call(
        &mut self,
        _context: &ToolContext,
        arguments: Value,
    ) -> Result<ToolOutput, ToolError> {
        let schema = strict_schema::<SubmitArguments>();
        let SubmitArguments {} = parse_arguments(SUBMIT, &schema, arguments)?;
        let shown = self.prompts.render("submitted", ())?;
        Ok(ToolOutput { is_submitted: true, ..ToolOutput::from_text(shown) })
    }
}
