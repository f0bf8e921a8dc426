//! The library that gives programs in a sandbox their task's time. `library/clock.rs` is its
//! source: 150 lines, which `build.rs` compiles for this machine's architecture.

static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/clock.so"));

/// A shared library for `LD_PRELOAD`. `None`: it could not be built on this runtime's build system.
pub fn library() -> Option<&'static [u8]> {
    (!LIBRARY.is_empty()).then_some(LIBRARY)
}
