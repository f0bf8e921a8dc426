//! Where links lead, and what every page of a viewer loads.

use serde::Serialize;

/// The viewer's own script and style sheet, by the names that its pages ask for. They are all that a page loads.
pub static FILES: [(&str, &str, &[&str]); 2] = [
    ("viewer.js", "text/javascript; charset=utf-8", &[SCRIPT]),
    ("viewer.css", "text/css; charset=utf-8", &[STYLE, VIEWER]),
];

const SCRIPT: &str = include_str!("../templates/viewer.js");
const STYLE: &str = include_str!("../templates/style.css");
const VIEWER: &str = include_str!("../templates/viewer.css");

/// The pieces of a file, as it is sent.
pub fn whole(pieces: &[&str]) -> String {
    pieces.concat()
}

/// Where a page's links lead: to a server's pages, or to files.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Links<'a> {
    /// What comes before every address; ends in `/`, or is empty.
    pub root: &'a str,
    /// The first page, behind that.
    pub home: &'a str,
    /// The trial's own address, without its ending.
    pub here: &'a str,
    /// What an address of a page ends in.
    pub ending: &'a str,
    /// A server answers: it searches, filters and knows bytes that no page holds.
    pub served: bool,
}
