//! Datasets: rows of files, loaded into [`proctor_types::Task`] or named as bad.

mod bad;
mod load;
mod recipe;
mod row;
mod rules;

pub use bad::{BadRow, DatasetError};
pub use load::{Loaded, Origin, load};
pub use recipe::{Recipe, RecipeFile};
pub use row::parse_task;
