//! The library that tells programs in a sandbox the time of their task. `library/clock.rs` is its source: 150 lines, which
//! `build.rs` compiles for this machine's architecture.

static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/clock.so"));

/// A shared library for `LD_PRELOAD`. `None`: this runtime was built where it cannot be.
pub fn library() -> Option<&'static [u8]> {
    (!LIBRARY.is_empty()).then_some(LIBRARY)
}
