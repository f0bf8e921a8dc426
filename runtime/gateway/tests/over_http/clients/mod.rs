//! Real clients against the gateway: the official Python libraries, over every pair of formats.
//!
//! They come from PyPI into a folder that is made once. Where that cannot be, each test says NOT RUN
//! by its name, or fails if `PROCTOR_REQUIRE_CLIENTS` is set.

mod install;
mod libraries;
