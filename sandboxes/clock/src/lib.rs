//! The library that shows programs in a sandbox their task's time. `build.rs` compiles its source,
//! `library/clock.rs`, for this machine's architecture.

static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/clock.so"));

/// Returns the shared library for `LD_PRELOAD`; `None` if it cannot be built for this system.
pub fn library() -> Option<&'static [u8]> {
    (!LIBRARY.is_empty()).then_some(LIBRARY)
}
