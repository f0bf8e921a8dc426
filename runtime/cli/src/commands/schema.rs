//! `proctor schema`: prints schemas for editors.

use std::process::ExitCode;

use crate::{args::SchemaOf, config, error::CommandError, print};

/// Prints a schema as stored in the repository below `configs/`.
pub fn schema(of: SchemaOf) -> Result<ExitCode, CommandError> {
    let schema = match of {
        SchemaOf::Config => config::config_schema(),
        SchemaOf::Task => config::task_schema(),
        SchemaOf::Manifest => config::manifest_schema(),
    };
    print::result(&format!("{}\n", serde_json::to_string_pretty(&schema)?))?;
    Ok(ExitCode::SUCCESS)
}
