//! The tests of datasets, shapes and predictions. One binary, because linking is the slow part.

mod common;
mod digests;
mod files;
mod fuzz;
mod harbor;
mod hub;
mod loading;
mod predictions;
mod shapes;
