//! Tests for pages, in one binary because linking is the slow part.

mod answer;
mod report;
mod viewer;
