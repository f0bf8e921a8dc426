//! `proctor schema`: prints schemas for editors.

use std::process::ExitCode;

use crate::{args::SchemaKind, config, error::CommandError, print};

/// Prints a JSON schema exactly as stored below `configs/` in the repository.
pub fn print_schema(kind: SchemaKind) -> Result<ExitCode, CommandError> {
    let schema = match kind {
        SchemaKind::Config => config::config_schema(),
        SchemaKind::Task => config::task_schema(),
        SchemaKind::Manifest => config::manifest_schema(),
    };
    print::print_result(&format!("{}\n", serde_json::to_string_pretty(&schema)?))?;
    Ok(ExitCode::SUCCESS)
}
