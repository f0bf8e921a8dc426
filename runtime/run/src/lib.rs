//! Runs plans. An [`Execution`] runs a plan in its run directory. It can be killed at any moment
//! and resumed later. The remaining modules cover a trial's lifecycle: set up, run, record,
//! collect, grade.

mod cancel;
mod capacity;
mod comparing;
mod dispatcher;
mod drive;
mod egress_ledger;
mod environments;
mod error;
mod execution;
mod fault_policy;
mod first_resolved;
mod forensics;
mod fork;
mod frozen_tests;
mod grading;
mod halts;
mod harbor;
mod images;
mod impossible;
mod interrupted;
mod kept;
mod leak_checks;
mod material;
mod moment;
mod network;
mod noise;
mod outside;
mod own_sandbox;
mod patience;
mod plan;
mod prediction;
mod prefix_grading;
mod prefixes;
mod preflight;
mod progress;
mod recorder;
mod restore;
mod resume_point;
mod run_context;
mod scripts;
mod session;
mod shared;
mod start_tree;
mod statement;
mod steps;
mod trial;
mod verdicts;
mod wide;

pub use cancel::Cancel;
pub use capacity::{Capacity, Share};
pub use comparing::ComparisonLimit;
pub use dispatcher::{DispatchedTrial, End, RecordedState, dispatch};
pub use drive::{LEAK_NOTE, limits_of};
pub use environments::Environments;
pub use error::RunError;
pub use execution::{
    Ended, Execution, Flakes, Grading, Handle, HeldTrials, KnownTrial, Opened, Running, capacity,
    known_trials,
};
pub use fault_policy::FaultPolicy;
pub use first_resolved::FirstResolvedSearch;
pub use fork::ForkPoint;
pub use frozen_tests::FrozenTests;
pub use grading::{GradingSandbox, grade_patch};
pub use halts::{Halt, Halts};
pub use harbor::IN_PLACE;
pub use impossible::variants;
pub use kept::Kept;
pub use leak_checks::LeakChecks;
pub use moment::{Moment, open_at};
pub use outside::OutsideLimits;
pub use plan::{Plan, PlannedTask, Until, longest, task_for_arm};
pub use prediction::{Taken, record_prediction};
pub use prefix_grading::grade_prefix;
pub use prefixes::{PrefixBudget, Prefixes};
pub use preflight::{Preflight, PreflightSink};
pub use progress::{Doing, Progress};
pub use run_context::RunContext;
pub use shared::{SharedMeters, shared_rates};
pub use start_tree::start_of;
pub(crate) use statement::apply_statement;
pub use statement::{has_interfaces, missing_hints, shown_tests};
pub use trial::{TrialEnd, run_trial};
pub use verdicts::Verdicts;
