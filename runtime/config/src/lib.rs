//! Reads a run configuration, merges it with its bases, applies `--set`, checks every key, and
//! resolves the configuration into arms.
//!
//! The keys are defined in one place: by the types that a configuration is deserialized into. Their
//! doc comments, bounds and examples generate the JSON Schema (`configs/schema.json`), the table of
//! keys that files are checked against, and the list of keys in `docs/reference/configuration.md`.

mod base;
mod documentation;
mod endpoints;
mod file;
#[cfg(test)]
mod fuzz;
mod ineffective_keys;
mod keys;
mod kind;
mod matrix;
mod model;
mod models;
mod paths;
mod reader;
mod resolve;
mod schema;
mod set;
mod source;
mod walk;

pub use documentation::keys_markdown;
pub use file::{ArmFile, ConfigFile, plain_arm, plain_config};
pub use model::{VendorModel, find_model, set_model, vendor_model, vendor_names};
pub use proctor_types::{
    CacheSettings, GradingSettings, ResumeSettings, SCRIPT_URL_PREFIX, UserError, similar_names,
};
pub use reader::{BuiltinLookup, config_from_table, read_config, read_config_with_builtins};
pub use resolve::{NameLookup, REPLAY_KEY, RunConfig, resolve_config};
pub use schema::{
    config_schema, generated_config_schema, generated_task_schema, manifest_schema,
    schema_for_type, task_schema,
};
pub use set::apply_assignment as set;
pub use source::ConfigSource;
pub use walk::{CheckExtent, check_keys};
