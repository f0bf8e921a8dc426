//! Shortens an endpoint's message for display.

use proctor_types::replace_control_chars;
use serde_json::Value;

/// Maximum number of characters that a fault quotes from a body.
const MAX_QUOTED_CHARS: usize = 400;

/// Maximum number of characters that `first_words` returns.
const MAX_FIRST_WORDS_CHARS: usize = 80;

/// Returns the message in an error body of any API: the error message, the title of a web page, or
/// the text itself.
pub(crate) fn error_message(body: &str) -> String {
    let parsed: Value = serde_json::from_str(body).unwrap_or_default();
    let first = if parsed.is_array() { &parsed[0] } else { &parsed };
    let found = [&first["error"]["message"], &first["message"], &first["detail"], &first["error"]];
    if let Some(said) = found.into_iter().find_map(Value::as_str) {
        return said.to_owned();
    }
    match page_title(body) {
        Some(title) if title.is_empty() => "a web page".into(),
        Some(title) => format!("a web page, \"{title}\""),
        None if body.trim().is_empty() => "(no reason given)".into(),
        None => body.to_owned(),
    }
}

/// Whether the text is a web page.
pub(crate) fn is_web_page(text: &str) -> bool {
    page_title(text).is_some()
}

/// Returns the title of a web page, or `None` if the text is not a web page.
fn page_title(body: &str) -> Option<String> {
    let head = body.trim_start().get(..15).unwrap_or(body.trim_start()).to_ascii_lowercase();
    if !head.starts_with("<!doctype html") && !head.starts_with("<html") {
        return None;
    }
    // Offsets in the lower-case copy are also valid in the original text, because ASCII letters
    // keep their length.
    let lower = body.to_ascii_lowercase();
    let title = lower.find("<title>").and_then(|start| {
        let start = start + "<title>".len();
        let end = start + lower[start..].find('<')?;
        Some(body[start..end].trim().to_owned())
    });
    Some(title.unwrap_or_default())
}

/// Shortens a body so that a fault can quote it.
pub(crate) fn quote_body(body: &str) -> String {
    shorten(body.trim(), MAX_QUOTED_CHARS).unwrap_or_else(|| "(no body)".into())
}

/// Returns the first words of a text, on one line.
pub(crate) fn first_words(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    shorten(&line, MAX_FIRST_WORDS_CHARS).unwrap_or_else(|| "(no reason given)".into())
}

/// Shortens a string to `max_chars` characters and removes terminal control characters. Returns
/// `None` if no text remains.
fn shorten(text: &str, max_chars: usize) -> Option<String> {
    let text = &replace_control_chars(text);
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => Some(format!("{}...", &text[..end])),
        None if text.is_empty() => None,
        None => Some(text.clone().into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{error_message, first_words};

    #[test]
    fn error_message_reads_each_vendors_format() {
        for body in [
            r#"{"error": {"message": "why"}}"#,
            r#"{"type": "error", "error": {"type": "x", "message": "why"}}"#,
            r#"[{"error": {"code": 400, "message": "why"}}]"#,
            r#"{"detail": "why"}"#,
            r#"{"error": "why"}"#,
            "why",
        ] {
            assert_eq!(error_message(body), "why", "{body}");
        }
    }

    #[test]
    fn web_page_error_message_is_its_title() {
        let page = "\n<!DOCTYPE html><html><head><TITLE>\n Open WebUI </TITLE>";
        assert_eq!(error_message(page), "a web page, \"Open WebUI\"");
        assert_eq!(error_message("<html><body>Bad gateway</body></html>"), "a web page");
    }

    #[test]
    fn first_words_returns_one_short_line() {
        assert_eq!(first_words(" over\n loaded "), "over loaded");
        assert!(first_words(&"x ".repeat(100)).chars().count() <= 83);
    }
}
