//! Finds which windows of lines occur in some bytes. Used for content that the host already has.

use std::collections::BTreeSet;

use proctor_wire::{Block, RawPath, ScanLimits, Secrets, WINDOW_LINES};

use crate::{
    content::{Location, Scanner},
    secrets::SecretIndex,
};

/// A set of windows of [`WINDOW_LINES`] lines, prepared for lookup.
pub struct WindowSet {
    index: SecretIndex,
    limits: ScanLimits,
}

impl WindowSet {
    /// Creates a set from hashes that were computed with `proctor_wire::fingerprint`.
    pub fn new(windows: Vec<u64>, limits: ScanLimits) -> Self {
        // The caller counts the matches itself, so use a threshold that is never reached.
        let block = Block { need: u32::MAX, lines: WINDOW_LINES as u8, windows };
        let secrets = Secrets { blocks: vec![block], ..Secrets::default() };
        Self { index: SecretIndex::new(secrets), limits }
    }

    /// Returns the numbers of the windows that occur in the bytes, in any encoding, archive or
    /// stream.
    pub fn find_windows(&self, bytes: &[u8]) -> BTreeSet<u32> {
        let mut scanner = Scanner::new(&self.index, self.limits);
        let nowhere = Location { path: RawPath::default(), inner_paths: Vec::new() };
        scanner.scan_content(&nowhere, bytes, 0);
        scanner.found_windows
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proctor_wire::fingerprint;

    use super::*;

    #[test]
    fn windows_are_found_in_any_encoding() {
        let lines = ["rest, total = text, 0", "while rest:", "rest = rest[1:]", "total += 1"];
        let prints: Vec<u64> =
            lines.iter().map(|line| fingerprint::hash_line(line.as_bytes()).unwrap().0).collect();
        let windows: Vec<u64> =
            prints.windows(WINDOW_LINES).map(fingerprint::hash_window).collect();
        let limits = ScanLimits {
            file_bytes: 1 << 20,
            expanded_bytes: 1 << 20,
            depth: 2,
            entries: 1,
            findings: 1,
        };
        let windows = WindowSet::new(windows, limits);
        let text = lines.join("\n");
        let both = BTreeSet::from([0, 1]);
        assert_eq!(windows.find_windows(text.as_bytes()), both);
        assert_eq!(windows.find_windows(format!("x = \\\n{text:?}").as_bytes()), both);
        assert_eq!(windows.find_windows(lines[..3].join("\r\n").as_bytes()), BTreeSet::from([0]));
        assert_eq!(windows.find_windows(b"while rest:\nrest = rest[1:]\n"), BTreeSet::new());
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        assert_eq!(windows.find_windows(&gzip.finish().unwrap()), both);
    }
}
