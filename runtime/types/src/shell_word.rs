//! Quoting for shell lines.

/// A text as one word of a shell line, in single quotes.
pub fn shell_word(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
