//! Reads files of `/proc`.

use std::{
    fs::File,
    io::{self, Read},
};

/// Initial buffer size in bytes, larger than nearly every file of `/proc`.
const INITIAL_BUFFER_BYTES: usize = 16 << 10;

/// Reads a whole file in `/proc`. Such files report a size of 0, so `fs::read` would start with a
/// 32-byte buffer and make the kernel format the text about ten times.
pub fn read(path: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(INITIAL_BUFFER_BYTES);
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}
