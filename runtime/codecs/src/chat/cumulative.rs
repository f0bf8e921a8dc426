//! Streams in which each fragment repeats all previous text.

/// Distinguishes a cumulative stream, in which each fragment repeats all previous text, from a
/// plain one by the first three fragments.
#[derive(Debug, Default)]
pub(super) enum TextDeduplicator {
    #[default]
    Empty,
    /// The first fragment.
    First(String),
    /// The second fragment starts with the whole first one. The second fragment is held back until
    /// the third one shows which kind of stream this is.
    Undecided { first: String, second: String },
    /// A plain stream, with the text so far.
    Plain(String),
    /// A cumulative stream, with the text so far.
    Cumulative(String),
}

/// Minimum length of repeated text, in bytes. Shorter text may repeat by coincidence.
const MIN_REPEATED_TEXT_BYTES: usize = 16;

/// Minimum length of the first fragment if the second one repeats it. A shorter repetition may be a
/// coincidence.
const MIN_FIRST_FRAGMENT_BYTES: usize = 4;

impl TextDeduplicator {
    /// Adds the next fragment and returns its new text.
    pub(super) fn push(&mut self, fragment: &str) -> String {
        if fragment.is_empty() {
            return String::new();
        }
        match std::mem::take(self) {
            Self::Empty => {
                *self = Self::First(fragment.to_owned());
                fragment.to_owned()
            }
            Self::First(first)
                if first.len() >= MIN_FIRST_FRAGMENT_BYTES
                    && fragment.len() > first.len()
                    && fragment.starts_with(&first) =>
            {
                *self = Self::Undecided { first, second: fragment.to_owned() };
                String::new()
            }
            Self::First(before) | Self::Plain(before) => {
                // Some servers repeat the whole text in the last fragment.
                if before.len() >= MIN_REPEATED_TEXT_BYTES && before == fragment {
                    *self = Self::Plain(before);
                    return String::new();
                }
                *self = Self::Plain(before + fragment);
                fragment.to_owned()
            }
            Self::Undecided { first, second: held } if fragment.starts_with(&held) => {
                *self = Self::Cumulative(fragment.to_owned());
                fragment[first.len()..].to_owned()
            }
            Self::Undecided { first, second: held } => {
                *self = Self::Plain(first + &held + fragment);
                held + fragment
            }
            Self::Cumulative(before) => {
                let new = fragment.strip_prefix(before.as_str()).map(str::to_owned);
                *self = Self::Cumulative(match &new {
                    Some(_) => fragment.to_owned(),
                    None => before + fragment,
                });
                new.unwrap_or_else(|| fragment.to_owned())
            }
        }
    }

    /// Returns the text that is still held back when the stream ends. A stream of only two
    /// fragments is cumulative if the second one repeats the first.
    pub(super) fn take_pending_text(&mut self) -> String {
        match std::mem::take(self) {
            Self::Undecided { first, second: held } => held[first.len()..].to_owned(),
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
        out += &stream.take_pending_text();
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
