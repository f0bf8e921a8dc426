//! Tests for pages, in one binary because linking is the slow part.

mod answer;
mod conversations;
mod edits;
mod report;
mod viewer;
