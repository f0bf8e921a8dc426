//! The life of a trial: plan, set up, drive, record, collect, grade - and the dispatcher that runs
//! many of them and can be killed at any moment.

mod cancel;
mod capacity;
mod dispatcher;
mod drive;
mod environments;
mod fault_policy;
mod forensics;
mod frozen_tests;
mod grading;
mod halts;
mod leak_checks;
mod memo;
mod network;
mod notices;
mod patience;
mod plan;
mod prediction;
mod progress;
mod recorder;
mod run_context;
mod session;
mod shared;
mod spending;
mod steps;
mod trial;
mod verdicts;

pub use cancel::Cancel;
pub use capacity::{Capacity, Share};
pub use dispatcher::{Dispatched, dispatch};
pub use environments::Environments;
pub use fault_policy::FaultPolicy;
pub use frozen_tests::FrozenTests;
pub use grading::{GradingSandbox, grade_patch};
pub use halts::{Halt, Halts};
pub use leak_checks::LeakChecks;
pub use notices::notices;
pub use plan::{Plan, PlannedTask};
pub use prediction::{PREDICTIONS, Taken, record_prediction};
pub use progress::Progress;
pub use run_context::RunContext;
pub use shared::SharedMeters;
pub use spending::earlier_tries;
pub use trial::{TrialEnd, run_trial};
pub use verdicts::Verdicts;
