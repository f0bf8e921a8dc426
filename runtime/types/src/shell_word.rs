//! Shell quoting.

/// Quotes a string as a single word of a shell line, in single quotes.
pub fn quote_shell_word(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
