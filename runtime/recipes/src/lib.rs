//! Recipes: real tasks, cut out of real libraries.

mod carve;

pub use carve::{CarveError, Carving, Kind, Object, carve};
