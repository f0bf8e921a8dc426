//! Recipes: real tasks, cut out of real libraries.

mod build;
mod carve;
mod draft;
mod error;
mod freeze;
mod statement;
mod tests;

pub use build::build_cached;
pub use carve::{CarveError, Carving, Kind, Object, carve};
pub use draft::{Draft, draft};
pub use error::RecipeError;
pub use freeze::{Frozen, LeftOut, freeze};
