//! Plans a run: resolves a configuration and checks it before anything runs.
//!
//! A plan is checked as far as its tasks, its arms and this machine allow, so that no trial is
//! paid for that cannot work. Nothing here starts a sandbox or calls a model, except that the
//! tasks of recipes are built in sandboxes.

pub mod bundle_contents;
mod certificate;
pub mod checks;
mod error;
pub mod extend;
pub mod home;
mod host;
pub mod live;
pub mod machine_limits;
mod models;
pub mod open_files;
pub mod planning;
mod reopened;
pub mod resume_set;
pub mod rules;
pub mod selection;
pub mod shipped;
mod start;
mod states;
pub mod tasks;

pub use certificate::read_certificate;
pub use error::PlanError;
pub use models::check_models;
pub use reopened::{Continuation, Reopened};
pub use start::{NewRun, run_tasks, start};
pub use states::{Bundled, Loaded, Planned, Purpose, Read, Ready, Resolved, World};
