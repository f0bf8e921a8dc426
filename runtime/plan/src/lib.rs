//! Planning: what a configuration asks for, checked before anything runs.
//!
//! A plan is checked here as far as its tasks, its arms and this machine allow it, so that no trial is
//! paid for that could not work. Nothing here starts a sandbox or calls a model, except that recipes
//! of tasks are built.

mod certificate;
pub mod checks;
mod error;
pub mod extend;
pub mod home;
mod host;
pub mod lent;
pub mod live;
mod models;
pub mod open_files;
pub mod planning;
pub mod resume_set;
pub mod rules;
pub mod selection;
pub mod shipped;
mod start;
mod states;
pub mod tasks;
pub mod wanted;

pub use certificate::read_certificate;
pub use error::PlanError;
pub use models::check_models;
pub use start::{run_tasks, start};
pub use states::{Bundled, Loaded, Planned, Purpose, Read, Ready, Resolved, World};
