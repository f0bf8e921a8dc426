use proctor_types::ToolSpec;
use schemars::JsonSchema;

use super::{
    edit_spec::EditArguments, search_spec::SearchArguments, shell_spec::ShellArguments,
    submit_spec::SubmitArguments,
};
use crate::{prompts::Prompts, schema::strict_schema};

pub(crate) const SHELL: &str = "shell";
pub(crate) const EDIT: &str = "edit";
pub(crate) const SEARCH: &str = "search";
pub(crate) const SUBMIT: &str = "submit";

/// Returns each tool's name, description and schema for the model. The description comes from the prompts, and the
/// schema comes from the type of the arguments.
pub fn specs(prompts: &Prompts) -> Vec<ToolSpec> {
    vec![
        spec::<ShellArguments>(prompts, SHELL),
        spec::<EditArguments>(prompts, EDIT),
        spec::<SearchArguments>(prompts, SEARCH),
        spec::<SubmitArguments>(prompts, SUBMIT),
    ]
}

fn spec<T: JsonSchema>(prompts: &Prompts, name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: prompts.render_static(&format!("tool_{name}")),
        parameters: strict_schema::<T>(),
    }
}
