//! Splits a stream into lines with a maximum length.

use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct LineSplitter {
    limit: usize,
    complete_lines: VecDeque<Vec<u8>>,
    partial_line: Vec<u8>,
}

/// The error for a line that exceeds the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong;

impl LineSplitter {
    /// Creates a splitter. `limit` is the maximum length of a line in bytes, including the newline.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, complete_lines: VecDeque::new(), partial_line: Vec::new() }
    }

    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Result<(), TooLong> {
        loop {
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let length = end.map_or(bytes.len(), |end| end + 1);
            if self.partial_line.len() + length > self.limit {
                return Err(TooLong);
            }
            let Some(end) = end else {
                self.partial_line.extend_from_slice(bytes);
                return Ok(());
            };
            self.partial_line.extend_from_slice(&bytes[..end]);
            self.complete_lines.push_back(std::mem::take(&mut self.partial_line));
            bytes = &bytes[end + 1..];
        }
    }

    /// Returns the next complete line, without its newline.
    pub(crate) fn next_line(&mut self) -> Option<Vec<u8>> {
        self.complete_lines.pop_front()
    }

    /// Ends the stream. If bytes are left, they count as a line.
    pub(crate) fn finish(&mut self) {
        if !self.partial_line.is_empty() {
            self.complete_lines.push_back(std::mem::take(&mut self.partial_line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_complete_however_the_bytes_are_split() {
        for cut in 1..8 {
            let mut lines = LineSplitter::new(6);
            for piece in b"a\n\nlong!\nend".chunks(cut) {
                lines.push(piece).unwrap();
            }
            lines.finish();
            let all: Vec<_> = std::iter::from_fn(|| lines.next_line()).collect();
            assert_eq!(all, [&b"a"[..], b"", b"long!", b"end"], "{cut}");
        }
    }

    #[test]
    fn line_over_the_limit_is_rejected_before_it_ends() {
        let mut lines = LineSplitter::new(6);
        assert_eq!(lines.push(b"longer\n"), Err(TooLong));
        let mut lines = LineSplitter::new(6);
        lines.push(b"a\nlong").unwrap();
        assert_eq!(lines.push(b"er!"), Err(TooLong));
    }
}
