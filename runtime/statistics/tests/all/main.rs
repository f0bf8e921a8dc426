//! The tests of statistics. One binary, because linking is the slow part.

mod properties;
mod reference;
