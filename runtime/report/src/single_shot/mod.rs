//! Reports on single-response trials (docs/single-shot.md): the files that were shown, the edits
//! that were applied, and the score of a probe.

mod numbers;
mod record;
mod tables;

pub use numbers::SingleShotReport;
pub use record::{
    EditStatus, ProbeScore, RetrievalQuality, ShownFiles, SingleShot, SingleShotResponse,
};
pub(crate) use tables::{BEYOND_WINDOW_MARK, format_tables};
