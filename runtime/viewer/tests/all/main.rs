//! The tests of pages. One binary, because linking is the slow part.

mod answer;
mod report;
mod viewer;
