//! Streams in which each piece repeats all previous text.

/// Distinguishes such a stream from a plain one by its first three pieces.
#[derive(Debug, Default)]
pub(super) enum TextDeduplicator {
    /// No piece yet.
    #[default]
    Empty,
    /// One piece so far.
    One(String),
    /// The second piece starts with the whole first piece. It is held back until the third piece
    /// decides.
    Doubted { first: String, held: String },
    /// A plain stream, with the text so far.
    Pieces(String),
    /// A cumulative stream, with the text so far.
    Cumulative(String),
}

/// Minimum length of repeated text. A repetition of shorter text may be a coincidence.
const MIN_REPEATED_TEXT: usize = 16;

/// Minimum length of a first piece that the second one repeats. A shorter repetition may be a
/// coincidence.
const MIN_FIRST_PIECE: usize = 4;

impl TextDeduplicator {
    /// Adds the next piece and returns its new text.
    pub(super) fn push(&mut self, piece: &str) -> String {
        if piece.is_empty() {
            return String::new();
        }
        match std::mem::take(self) {
            Self::Empty => {
                *self = Self::One(piece.to_owned());
                piece.to_owned()
            }
            Self::One(first)
                if first.len() >= MIN_FIRST_PIECE
                    && piece.len() > first.len()
                    && piece.starts_with(&first) =>
            {
                *self = Self::Doubted { first, held: piece.to_owned() };
                String::new()
            }
            Self::One(before) | Self::Pieces(before) => {
                // Some servers repeat the whole text at the end.
                if before.len() >= MIN_REPEATED_TEXT && before == piece {
                    *self = Self::Pieces(before);
                    return String::new();
                }
                *self = Self::Pieces(before + piece);
                piece.to_owned()
            }
            Self::Doubted { first, held } if piece.starts_with(&held) => {
                *self = Self::Cumulative(piece.to_owned());
                piece[first.len()..].to_owned()
            }
            Self::Doubted { first, held } => {
                *self = Self::Pieces(first + &held + piece);
                held + piece
            }
            Self::Cumulative(before) => {
                let new = piece.strip_prefix(before.as_str()).map(str::to_owned);
                *self = Self::Cumulative(match &new {
                    Some(_) => piece.to_owned(),
                    None => before + piece,
                });
                new.unwrap_or_else(|| piece.to_owned())
            }
        }
    }

    /// Returns the text that is still held back at the end of the stream. If there are only two
    /// pieces and the second repeats the first, the stream is cumulative.
    pub(super) fn rest(&mut self) -> String {
        match std::mem::take(self) {
            Self::Doubted { first, held } => held[first.len()..].to_owned(),
            other => {
                *self = other;
                String::new()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TextDeduplicator;

    fn text(pieces: &[&str]) -> String {
        let mut stream = TextDeduplicator::default();
        let mut out: String = pieces.iter().map(|piece| stream.push(piece)).collect();
        out += &stream.rest();
        out
    }

    #[test]
    fn push_returns_only_new_text() {
        assert_eq!(
            text(&["I look", "I look at", "I look at it.", "I look at it."]),
            "I look at it."
        );
        assert_eq!(text(&["I look", "I look at it."]), "I look at it.");
        assert_eq!(text(&["", "I look", "", "I look at", "I look at it"]), "I look at it");
        assert_eq!(text(&["I look", " at ", "it."]), "I look at it.");
        // Text that repeats its own beginning once.
        assert_eq!(text(&["again", "again and", " again"]), "againagain and again");
        assert_eq!(text(&["ha", "haha", "hahaha"]), "hahahahahaha");
        assert_eq!(
            text(&["I look", " at the files.", "I look at the files."]),
            "I look at the files."
        );
    }
}
