//! The URLs of links, and the files that every viewer page loads.

use serde::Serialize;

/// The viewer's script and style sheet: file name, media type and content. Pages load no other
/// files.
pub static ASSETS: [(&str, &str, &[&str]); 2] = [
    ("viewer.js", "text/javascript; charset=utf-8", &[SCRIPT]),
    ("viewer.css", "text/css; charset=utf-8", &[STYLE, CHART_STYLE, VIEWER_STYLE]),
];

const SCRIPT: &str = include_str!("../../templates/viewer.js");
const STYLE: &str = include_str!("../../templates/style.css");
const CHART_STYLE: &str = include_str!("../../templates/charts.css");
const VIEWER_STYLE: &str = include_str!("../../templates/viewer.css");

/// Concatenates the pieces of a file.
pub fn join_pieces(pieces: &[&str]) -> String {
    pieces.concat()
}

/// Prefixes and suffixes for the links on a page. The links lead either to pages on a server or to
/// files.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Links<'a> {
    /// Prefix of every URL. Empty, or ends in `/`.
    pub root: &'a str,
    /// The home page's URL, relative to the root.
    pub home: &'a str,
    /// The URL of the run's page, relative to the root and with the suffix. The same as `home`
    /// if there is only one run.
    pub run_page: &'a str,
    /// Whether there are several runs.
    pub several: bool,
    /// The number of the run that the page is about. 0 if it is about all runs.
    pub run: usize,
    /// The trial's own URL, without the suffix.
    pub here: &'a str,
    /// The trial's value in the query string of a search. Empty if the page is not about a trial.
    pub trial: &'a str,
    /// Suffix of every page's URL.
    pub ending: &'a str,
    /// Whether a server answers requests. Pages that are exported as files have no search and no
    /// links to raw bytes, and their filter runs in the browser.
    pub served: bool,
}
