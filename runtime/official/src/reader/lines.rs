//! A log as lines of plain text.

use std::sync::LazyLock;

use regex::Regex;

use crate::parsers::text::{pattern, universal_newlines};

/// Control sequences of terminals, and their hyperlinks.
static ESCAPES: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"));

pub fn plain(log: &[u8]) -> String {
    let text = String::from_utf8_lossy(log);
    ESCAPES.replace_all(&universal_newlines(&text), "").into_owned()
}
