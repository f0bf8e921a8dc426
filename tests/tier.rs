//! The tier of a test run. Test crates include this file by its path.

use std::env;

/// Whether to run tests at full size: `.ci/full` sets `PROCTOR_TIER=full`. The default is `core`, the size
/// that `.ci/run` uses.
///
/// # Panics
/// If the variable has any other value.
pub fn is_full() -> bool {
    match env::var("PROCTOR_TIER").as_deref() {
        Err(_) | Ok("core") => false,
        Ok("full") => true,
        Ok(other) => panic!("PROCTOR_TIER={other}: expected `core` or `full`"),
    }
}
