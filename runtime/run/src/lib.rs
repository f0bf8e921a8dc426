//! Runs plans. An [`Execution`] runs a plan in its run directory. It can be killed at any moment
//! and resumed later. The remaining modules cover a trial's lifecycle: set up, run, record,
//! collect, grade.

mod cancel;
mod capacity;
mod comparison_limit;
mod dispatcher;
mod drive;
mod egress_ledger;
mod environments;
mod error;
mod exchange_log;
mod execution;
mod fault_handling;
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
mod inspection;
mod interrupted;
mod leak_checks;
mod network;
mod noise;
mod outside;
mod own_sandbox;
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
mod shared_limits;
mod start_tree;
mod statement;
mod steps;
mod task_material;
mod trial;
mod verdicts;
mod wide_grading;

pub use cancel::CancelSignal;
pub use capacity::{Capacity, CapacityPermit};
pub use comparison_limit::ComparisonLimit;
pub use dispatcher::{DispatchEnd, DispatchedTrial, RecordedState, dispatch};
pub use drive::{LEAK_NOTE, sandbox_limits};
pub use environments::Environments;
pub use error::RunError;
pub use exchange_log::ExchangeLog;
pub use execution::{
    Execution, ExecutionResult, FlakyTests, Handle, HeldTrials, KnownTrial, OpenedRun,
    RegradePolicy, RunningExecution, capacity, known_trials,
};
pub use fault_policy::FaultPolicy;
pub use first_resolved::FirstResolvedSearch;
pub use fork::ForkPoint;
pub use frozen_tests::FrozenTests;
pub use grading::{GradingSandbox, grade_patch};
pub use halts::{Halt, Halts};
pub use harbor::IN_PLACE_NOTE;
pub use impossible::impossible_variants;
pub use inspection::{Moment, open_at};
pub use leak_checks::LeakChecks;
pub use outside::OutsideLimits;
pub use plan::{Deadline, Plan, PlannedTask, max_trial_duration, task_for_arm};
pub use prediction::{TaskPrediction, record_prediction};
pub use prefix_grading::grade_prefix;
pub use prefixes::{PrefixBudget, Prefixes};
pub use preflight::{PreflightFinding, PreflightSink};
pub use progress::{Progress, TrialActivity};
pub use run_context::RunContext;
pub use shared_limits::{SharedMeters, shared_rates};
pub use start_tree::trial_start_tree;
pub(crate) use statement::apply_statement;
pub use statement::{has_interfaces, missing_hints, shown_tests};
pub use trial::{TrialEnd, run_trial};
pub use verdicts::VerdictCache;
