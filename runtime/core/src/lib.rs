//! The life of a trial: plan, seat, drive, record, collect, grade - and the dispatcher that runs
//! many of them and can be killed at any moment.

mod cancel;
mod capacity;
mod dispatcher;
mod doors;
mod drive;
mod environments;
mod forensics;
mod frozen_tests;
mod grading;
mod house;
mod notices;
mod plan;
mod prediction;
mod progress;
mod recorder;
mod retry;
mod seals;
mod session;
mod shared;
mod spending;
mod trial;
mod verdicts;

pub use cancel::Cancel;
pub use capacity::{Capacity, Share};
pub use dispatcher::{Dispatched, dispatch};
pub use environments::Environments;
pub use frozen_tests::FrozenTests;
pub use grading::{GradeRoom, grade_patch};
pub use house::House;
pub use notices::notices;
pub use plan::{Plan, PlannedTask};
pub use prediction::{PREDICTIONS, Taken, record_prediction};
pub use progress::Progress;
pub use retry::RetryPolicy;
pub use seals::Seals;
pub use shared::SharedMeters;
pub use spending::earlier_tries;
pub use trial::{TrialEnd, run_trial};
pub use verdicts::Verdicts;
