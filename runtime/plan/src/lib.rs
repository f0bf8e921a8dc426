//! Plans a run: resolves a configuration and checks it before anything runs.
//!
//! A plan is checked as far as its tasks, its arms and this machine allow, so that no money is
//! spent on trials that cannot work. Planning calls no model. It starts sandboxes only to build the
//! tasks of recipes.

pub mod bundle_contents;
pub mod cache_dir;
mod certificate;
pub mod checks;
mod error;
pub mod estimates;
pub mod extend;
mod host;
mod limit_changes;
pub mod machine_limits;
mod models;
pub mod open_files;
mod plan_context;
mod planned_run;
mod reopened;
pub mod resume_set;
pub mod rules;
pub mod selection;
pub mod shipped;
mod start;
mod states;
pub mod tasks;
pub mod workers;

pub use certificate::read_certificate;
pub use error::PlanError;
pub use models::check_models;
pub use plan_context::PlanContext;
pub use planned_run::PlannedRun;
pub use reopened::{Continuation, ReopenedRun};
pub use start::{NewRun, create_run, to_run_tasks};
pub use states::{BundledPlan, LoadedPlan, Purpose, ReadConfig, ReadyPlan, ResolvedConfig};
