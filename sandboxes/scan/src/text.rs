//! Finds windows of lines in text, in all forms that the lines of a copy can have.

use memchr::{memchr2_iter, memmem};
use proctor_wire::{WINDOW_LINES, fingerprint};

use crate::{
    line_numbers::strip_line_number,
    secrets::{SecretIndex, Tally},
};

/// Possible numbers of backslashes before the `n` of a line break: 1 in a string literal, 2 in a
/// nested literal, and 4 one level deeper. For example, if a log contains a tool call with a
/// program's text, that text is three levels deep.
const BREAK_BACKSLASHES: [usize; 3] = [1, 2, 4];

/// Adds the secret windows that occur in `text` to the tally.
///
/// Lines end at a newline, or at a NUL as in binary files. Each line is also tried without a
/// leading line number, and split at the line breaks of a string literal. A file does not show
/// which form applies, so all are tried, but only around lines where they make a difference.
pub fn count_windows(index: &SecretIndex, text: &[u8], tally: &mut Tally) {
    let mut readings = LineReadings::new(index);
    let mut breaks = memmem::find_iter(text, b"\\n");
    let mut next = breaks.next().unwrap_or(usize::MAX);
    let mut start = 0;
    for end in memchr2_iter(b'\n', 0, text).chain([text.len()]) {
        let has_escaped_line_breaks = next < end;
        while next < end {
            next = breaks.next().unwrap_or(usize::MAX);
        }
        readings.push_line(&text[start..end], has_escaped_line_breaks, tally);
        start = end + 1;
    }
}

/// Like [`count_windows`], but for text whose lines are stored in reverse order, as in an editor's
/// swap file.
pub fn count_reversed_windows(index: &SecretIndex, text: &[u8], tally: &mut Tally) {
    let mut track = WindowTrack::default();
    for piece in text.rsplit(|&byte| byte == b'\n' || byte == 0) {
        track.push_different_line(index, piece, tally);
    }
}

/// Converts UTF-16 text with a byte order mark to one byte per character.
pub fn narrow_utf16(text: &[u8]) -> Option<Vec<u8>> {
    let is_wide = text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff");
    is_wide.then(|| text[2..].iter().copied().filter(|&byte| byte != 0).collect())
}

/// Different ways to read the lines of one file, tracked in parallel.
struct LineReadings<'a> {
    index: &'a SecretIndex,
    plain_track: WindowTrack,
    numbered_track: WindowTrack,
    /// For each entry of [`BREAK_BACKSLASHES`], two tracks: lines as they are, and lines without
    /// line numbers.
    literal_tracks: [[WindowTrack; 2]; BREAK_BACKSLASHES.len()],
}

impl<'a> LineReadings<'a> {
    fn new(index: &'a SecretIndex) -> Self {
        let (plain_track, numbered_track, literal_tracks) = Default::default();
        Self { index, plain_track, numbered_track, literal_tracks }
    }

    fn push_line(&mut self, line: &[u8], has_escaped_line_breaks: bool, tally: &mut Tally) {
        let index = self.index;
        let before = self.plain_track;
        let plain = fingerprint::hash_line(line).map(|(hash, _)| hash);
        if let Some(hash) = plain {
            self.plain_track.push_hash(index, hash, tally);
        }
        match strip_line_number(line) {
            Some(rest) => {
                self.numbered_track.start_tracking(before).push_different_line(index, rest, tally)
            }
            None => self.numbered_track.push_same_line(index, plain, tally),
        }
        // Checking one track is enough: either all of them are active or none is.
        if !has_escaped_line_breaks && self.literal_tracks[0][0].lines_to_track == 0 {
            return;
        }
        for (tracks, backslashes) in self.literal_tracks.iter_mut().zip(BREAK_BACKSLASHES) {
            let [whole, numbered] = tracks;
            if !has_escaped_line_breaks {
                whole.push_same_line(index, plain, tally);
                numbered.push_same_line(index, plain, tally);
                continue;
            }
            whole.start_tracking(before);
            numbered.start_tracking(before);
            for piece in LiteralLines::new(line, backslashes) {
                whole.push_different_line(index, piece, tally);
                numbered.push_different_line(
                    index,
                    strip_line_number(piece).unwrap_or(piece),
                    tally,
                );
            }
        }
    }
}

/// The hashes of the last lines in one reading.
#[derive(Clone, Copy, Default)]
struct WindowTrack {
    last_hashes: [u64; WINDOW_LINES],
    hash_count: usize,
    /// How many more lines can share a window with a line that differs from the plain reading. At
    /// 0, this reading is not tracked, because the plain reading covers its windows.
    lines_to_track: usize,
}

impl WindowTrack {
    /// Called before a line that differs is added. If this reading is not tracked, starts with the
    /// lines of the plain reading.
    fn start_tracking(&mut self, plain_track: Self) -> &mut Self {
        if self.lines_to_track == 0 {
            *self = plain_track;
        }
        self
    }

    /// Adds a line that differs from the same line in the plain reading.
    fn push_different_line(&mut self, index: &SecretIndex, line: &[u8], tally: &mut Tally) {
        if let Some((hash, _)) = fingerprint::hash_line(line) {
            self.push_hash(index, hash, tally);
        }
        self.lines_to_track = WINDOW_LINES - 1;
    }

    /// Adds a line that is the same as in the plain reading.
    fn push_same_line(&mut self, index: &SecretIndex, plain_hash: Option<u64>, tally: &mut Tally) {
        if self.lines_to_track > 0
            && let Some(hash) = plain_hash
        {
            self.lines_to_track -= 1;
            self.push_hash(index, hash, tally);
        }
    }

    fn push_hash(&mut self, index: &SecretIndex, hash: u64, tally: &mut Tally) {
        self.last_hashes.rotate_left(1);
        self.last_hashes[WINDOW_LINES - 1] = hash;
        self.hash_count = (self.hash_count + 1).min(WINDOW_LINES);
        for &length in &index.window_lengths {
            if length <= self.hash_count {
                tally.add_window(
                    index,
                    fingerprint::hash_window(&self.last_hashes[WINDOW_LINES - length..]),
                );
            }
        }
    }
}

/// The lines in a string literal. A line ends at an `n` that follows exactly `backslashes`
/// backslashes.
struct LiteralLines<'a> {
    rest: Option<&'a [u8]>,
    backslashes: usize,
}

impl<'a> LiteralLines<'a> {
    fn new(line: &'a [u8], backslashes: usize) -> Self {
        Self { rest: Some(line), backslashes }
    }
}

impl<'a> Iterator for LiteralLines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.take()?;
        let cut = memmem::find_iter(rest, b"\\n").find(|&last| {
            let before = rest[..last].iter().rev().take_while(|&&byte| byte == b'\\').count();
            before + 1 == self.backslashes
        });
        let Some(last) = cut else { return Some(rest) };
        self.rest = Some(&rest[last + 2..]);
        Some(&rest[..last + 1 - self.backslashes])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_split_at_breaks_of_the_given_depth() {
        let line = br#"{"a": "one\ntwo(\"x\\n\")\nthree"}"#;
        let pieces = |count| LiteralLines::new(line, count).collect::<Vec<_>>();
        assert_eq!(pieces(1), [&b"{\"a\": \"one"[..], br#"two(\"x\\n\")"#, b"three\"}"]);
        assert_eq!(pieces(2), [&br#"{"a": "one\ntwo(\"x"#[..], br#"\")\nthree"}"#]);
        assert_eq!(pieces(4), [&line[..]]);
        assert_eq!(LiteralLines::new(b"\\n", 1).collect::<Vec<_>>(), [b"", b""]);
    }
}
