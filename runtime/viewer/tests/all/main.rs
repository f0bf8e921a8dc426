//! Tests for pages, in one binary because linking is the slow part.

mod answer;
mod conversations;
mod report;
mod viewer;
