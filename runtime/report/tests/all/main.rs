//! Tests for reports and comparisons, in one binary because linking is the slow part.

#![recursion_limit = "256"]

mod answer;
mod compare;
mod papers;
mod report;
mod tables;
