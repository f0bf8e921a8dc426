//! Converts rows from other benchmarks to tasks: detects their shape, reads their fields and builds
//! the tasks.

mod build;
mod commands;
mod detect;
mod draft;
pub(crate) mod fea_bench;
mod featurebench;
mod fields;
mod image;
mod lists;
mod literal;
mod pytest_words;
mod shape;
mod statement;

pub(crate) use build::{Provenance, build_task};
pub(crate) use detect::detect_shape;
pub(crate) use lists::describe_type;
pub(crate) use shape::{Shape, load_shape, shape_for_hub, shipped_shapes};
