//! Tests the gateway with real clients: the official Python libraries with every pair of formats,
//! and two coding agents.
//!
//! The clients are installed once, from PyPI and npm, into a directory. If that is impossible, each
//! test prints NOT RUN with its name, or fails if `PROCTOR_REQUIRE_CLIENTS` is set.

mod clis;
mod install;
mod libraries;
