//! Lines and windows of text.

use proctor_wire::{WINDOW_LINES, print};

use super::secrets::{Index, Tally};

/// Counts the windows of `text` into the tally.
///
/// Lines end at a newline or a NUL: binary files keep text so. `reversed` reads them from the last
/// to the first, as an editor's swap file stores them.
pub fn lines(index: &Index, text: &[u8], reversed: bool, tally: &mut Tally) {
    let pieces = text.split(|&byte| byte == b'\n' || byte == 0);
    if reversed {
        windows(index, pieces.rev(), tally);
    } else {
        windows(index, pieces, tally);
    }
}

/// Counts the windows of text that JSON holds in strings.
pub fn json(index: &Index, text: &[u8], tally: &mut Tally) {
    let mut rest = text;
    let pieces = std::iter::from_fn(|| {
        if rest.is_empty() {
            return None;
        }
        let at = rest.windows(2).position(|pair| pair == b"\\n");
        let (line, after) = match at {
            Some(at) => (&rest[..at], &rest[at + 2..]),
            None => (rest, &rest[rest.len()..]),
        };
        rest = after;
        Some(line)
    });
    windows(index, pieces, tally);
}

fn windows<'a>(index: &Index, pieces: impl Iterator<Item = &'a [u8]>, tally: &mut Tally) {
    let mut last = [0; WINDOW_LINES];
    let mut known = 0;
    for piece in pieces {
        let Some((hash, _)) = print::line(piece) else { continue };
        last.rotate_left(1);
        last[WINDOW_LINES - 1] = hash;
        known = (known + 1).min(WINDOW_LINES);
        for length in 1..=known {
            if index.lengths[length] {
                tally.window(index, print::window(&last[WINDOW_LINES - length..]));
            }
        }
    }
}
