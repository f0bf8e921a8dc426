//! HTML pages: the report as a single file, and the viewer's pages. The pages load no external
//! resources.
//!
//! Text from a run is always escaped and never treated as markup. Only `templates.rs` inserts
//! values into pages.

mod bars;
mod budgets;
mod comparison;
mod conversation;
mod dashboard;
mod divergence;
mod excerpt;
mod figures;
mod isolation;
mod links;
mod loading;
mod matrix;
mod patch_difference;
mod plot;
mod report;
mod result_difference;
mod run_summary;
mod search;
mod sentence;
mod side_by_side;
mod side_requests;
mod step_pairs;
mod step_row;
mod summary;
mod templates;
mod test_lists;
mod tiles;
mod timeline;
mod trial;
mod trial_name;
mod workspace;

pub use comparison::render_comparison;
pub use dashboard::{ArmScore, Dashboard, DashboardRun, render_dashboard};
pub use divergence::{Divergence, differing_steps, find_divergence};
pub use links::{ASSETS, Links, join_pieces};
pub use loading::render_loading_page;
pub use matrix::{
    Filter, FilterOptions, Matrix, MatrixCell, MatrixRow, Overview, PageLinks, RunFault,
    render_matrix,
};
pub use report::{NamedRun, ReportPage, ReportUrls, render_report};
pub use result_difference::ComparedResult;
pub use run_summary::RunSummary;
pub use search::{Hit, SearchResults, render_search};
pub use sentence::Sentence;
pub use side_by_side::{TrialChoice, TrialColumn, render_side_by_side_page};
pub use side_requests::SideRequest;
pub use step_row::StepRow;
pub use templates::report_style_source;
pub use timeline::{ChartLimit, ChartLimitKind};
pub use trial::{
    Call, EgressRequest, EndpointRequest, ShownLabel, Step, TestLine, Trial, render_step,
    render_trial,
};
pub use trial_name::TrialName;
pub use workspace::{Entry, Folder, OpenedFile};
