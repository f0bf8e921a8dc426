//! The library that sets the time for programs in a sandbox. `build.rs` compiles its source,
//! `library/clock.rs`, for this machine's architecture.

static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/clock.so"));

/// Returns a shared library for `LD_PRELOAD`; `None` if it could not be built on the build system.
pub fn library() -> Option<&'static [u8]> {
    (!LIBRARY.is_empty()).then_some(LIBRARY)
}
