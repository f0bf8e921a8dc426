//! The addresses of links, and the files that every page of a viewer loads.

use serde::Serialize;

/// The viewer's script and style sheet, by the names used in its pages. Pages load nothing else.
pub static ASSETS: [(&str, &str, &[&str]); 2] = [
    ("viewer.js", "text/javascript; charset=utf-8", &[SCRIPT]),
    ("viewer.css", "text/css; charset=utf-8", &[STYLE, VIEWER_STYLE]),
];

const SCRIPT: &str = include_str!("../../templates/viewer.js");
const STYLE: &str = include_str!("../../templates/style.css");
const VIEWER_STYLE: &str = include_str!("../../templates/viewer.css");

/// Joins the parts of a file.
pub fn join_pieces(pieces: &[&str]) -> String {
    pieces.concat()
}

/// Prefixes and suffixes of a page's links. Links lead to pages of a server, or to files.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Links<'a> {
    /// Prefix of every address. Ends in `/` or is empty.
    pub root: &'a str,
    /// The address of the first page, relative to the root.
    pub home: &'a str,
    /// The trial's own address, without the suffix.
    pub here: &'a str,
    /// Suffix of every page's address.
    pub ending: &'a str,
    /// Whether a server handles requests. Files cannot offer searches, filters, or bytes that are
    /// not on any page.
    pub served: bool,
}
