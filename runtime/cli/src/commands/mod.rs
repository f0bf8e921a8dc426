//! One file a command.

mod carry_out;
mod certificate;
mod clean;
mod compare;
mod curve;
mod curve_check;
mod doctor;
mod extend;
mod grade;
mod grade_log;
mod look;
mod predictions;
mod report;
mod rerun;
mod resume;
mod run;
mod scaffold;
mod schema;
mod show;
mod tasks;
mod validate;
mod view;

pub use clean::clean;
pub use compare::compare;
pub use curve::curve;
pub use doctor::doctor;
pub use grade::grade;
pub use look::look;
pub use report::{report, result_of_trial, results_of};
pub use rerun::rerun;
pub use resume::resume;
pub use run::{now, run};
pub use scaffold::scaffold;
pub use schema::schema;
pub use tasks::tasks;
pub use view::view;
