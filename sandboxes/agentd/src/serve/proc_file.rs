//! Reads files of `/proc`.

use std::{
    fs::File,
    io::{self, Read},
};

/// Larger than nearly every file of `/proc`, in bytes.
const USUAL_SIZE: usize = 16 << 10;

/// Reads a whole file of `/proc`. These files claim to be empty, so that `fs::read` begins with 32
/// bytes and makes the kernel format the text ten times.
pub fn read(path: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(USUAL_SIZE);
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}
