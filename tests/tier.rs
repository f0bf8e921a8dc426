//! The tier of a test run. Test crates include this file by its path.

use std::env;

/// Returns whether to run tests at full size, for which `.ci/full` sets `PROCTOR_TIER=full`. The
/// default is `core`, the size that `.ci/run` uses.
///
/// # Panics
/// Panics if the variable has any other value.
pub fn is_full() -> bool {
    match env::var("PROCTOR_TIER").as_deref() {
        Err(_) | Ok("core") => false,
        Ok("full") => true,
        Ok(other) => panic!("PROCTOR_TIER={other}: expected `core` or `full`"),
    }
}
