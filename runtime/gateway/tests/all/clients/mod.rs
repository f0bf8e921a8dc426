//! Real clients against the gateway: the official Python libraries, over every pair of formats, and
//! two coding agents.
//!
//! They come from PyPI and npm into a folder that is made once. Where that cannot be, each test says NOT RUN
//! by its name, or fails if `PROCTOR_REQUIRE_CLIENTS` is set.

mod clis;
mod install;
mod libraries;
