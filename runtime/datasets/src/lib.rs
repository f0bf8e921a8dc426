//! Loads the rows of dataset files as [`proctor_types::Task`]s, and reports invalid ones.

mod address;
mod dataset;
mod errors;
mod files;
mod harbor;
mod hub;
mod ids;
mod load;
mod loader;
mod predictions;
mod read;
mod recipe;
mod row;
mod rules;
mod shapes;
mod split_files;
mod splits;
mod stats;
mod template;

/// FEA-Bench's representation of a pull request. Other crates use it to create rows in this form.
pub mod fea_bench {
    pub use crate::shapes::fea_bench::{
        AddedComponent, Commit, DefinitionSpan, PullTexts, Repository, SplitDiff, added_components,
        build_texts, new_spans, split_diff,
    };
}

pub use dataset::{LoadedDataset, RowRetention, RowSourceFiles, TaskOrigin};
pub use errors::{BadRow, DatasetError};
pub use harbor::lint_folder;
pub use hub::Hub;
pub use load::{load, load_with_hub, load_with_retention};
pub use predictions::{AttemptPredictions, Prediction, Predictions, read_predictions};
/// A finding of [`lint_folder`].
pub use proctor_harbor::Finding as LintFinding;
pub use recipe::{Recipe, RecipeFile};
pub use row::parse_task;
pub use stats::{DatasetStats, GoldStats, SourceReader, TaskStats};
pub use template::render_template;
