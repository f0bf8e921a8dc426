//! Datasets: rows of files, loaded into [`proctor_types::Task`] or named as bad.

mod address;
mod bad;
mod choose;
mod files;
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
mod splits;
mod template;

pub use bad::{BadRow, DatasetError};
pub use hub::Hub;
pub use load::{Loaded, Origin, load, load_with};
pub use predictions::{Attempts, Prediction, Predictions, read_predictions};
pub use recipe::{Recipe, RecipeFile};
pub use row::parse_task;
pub use template::fill;
