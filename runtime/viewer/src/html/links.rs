//! Where links lead, and what every page of a viewer loads.

use serde::Serialize;

/// The viewer's own script and style sheet, by the names that its pages use. Pages load nothing
/// else.
pub static FILES: [(&str, &str, &[&str]); 2] = [
    ("viewer.js", "text/javascript; charset=utf-8", &[SCRIPT]),
    ("viewer.css", "text/css; charset=utf-8", &[STYLE, VIEWER]),
];

const SCRIPT: &str = include_str!("../../templates/viewer.js");
const STYLE: &str = include_str!("../../templates/style.css");
const VIEWER: &str = include_str!("../../templates/viewer.css");

/// The pieces of a file, as it is sent.
pub fn whole(pieces: &[&str]) -> String {
    pieces.concat()
}

/// Whether a page's links lead to a server's pages or to files.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Links<'a> {
    /// Prefix of every address; ends in `/`, or is empty.
    pub root: &'a str,
    /// The first page, relative to the root.
    pub home: &'a str,
    /// The trial's own address, without the ending.
    pub here: &'a str,
    /// The ending of a page's address.
    pub ending: &'a str,
    /// Whether a server handles requests: it searches, filters and has bytes that no page contains.
    pub served: bool,
}
