//! The tests of datasets, shapes and predictions, built as one binary because linking is slow.

mod common;
mod digests;
mod files;
mod fuzz;
mod harbor;
mod hub;
mod loading;
mod predictions;
mod shapes;
