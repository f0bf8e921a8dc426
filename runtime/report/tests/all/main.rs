//! The tests of reports and comparisons. One binary, because linking is the slow part.

mod answer;
mod compare;
mod papers;
mod report;
mod tables;
