//! Reports on single-response trials (`docs/reference/single-shot.md`): the files that the model saw, the
//! edits that were applied, and the probe's score.

mod numbers;
mod record;
mod tables;

pub use numbers::SingleShotReport;
pub use record::{
    EditStatus, ProbeScore, RetrievalQuality, ShownFiles, SingleShot, SingleShotResponse,
};
pub(crate) use tables::{BEYOND_WINDOW_MARK, format_tables};
