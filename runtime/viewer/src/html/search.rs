//! Renders the results of a search in runs.

use minijinja::Error;
use serde::Serialize;

use super::{Links, TrialName, templates::render_template};

/// A match found by a search.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Hit {
    pub trial: TrialName,
    /// The trial's URL, relative to the root.
    pub href: String,
    /// The step that contains the match. 0 means before the first response.
    pub step: u64,
    /// The kind of text that contains the match: `message`, `output` and so on.
    pub place: String,
    pub before: String,
    pub found: String,
    pub after: String,
    /// Number of further matches in the same text.
    pub more: usize,
    /// The match as a text fragment in a URL. Browsers that support it scroll to the match.
    pub fragment: String,
}

/// The result of a search.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SearchResults {
    pub text: String,
    pub pattern: bool,
    /// URL of the trial that was searched. Empty if all trials were searched.
    pub trial: String,
    /// The number of the run and the arm to which the search is limited. Empty if it is not.
    pub run: String,
    pub arm: String,
    /// Whether only the first match of each trial is shown.
    pub first: bool,
    /// The numbers and names of the runs, and the arms, that the user can select.
    pub runs: Vec<(String, String)>,
    pub arms: Vec<String>,
    pub hits: Vec<Hit>,
    /// Number of trials with a match on this page.
    pub matching: usize,
    /// Whether an earlier page has shown the first matches of the first trial.
    pub continues_trial: bool,
    /// Whether the search stopped because the page is full.
    pub cut: bool,
    /// If the page is full: the number of matches of the next trial that have been shown.
    pub next_skip: Option<usize>,
    /// Number of trials that were searched, then the number of all trials in the scope.
    pub read: usize,
    pub of: usize,
    /// Number of trials before the first one that was searched.
    pub skipped: usize,
    /// The URL of the search in the remaining trials, relative to the root. Empty if there are
    /// none.
    pub next: String,
    /// Whether the search counts all matches. The page then shows only the first ones.
    pub counts_all: bool,
    /// If the search counts all matches: their number, and the number of trials that have them.
    pub total_hits: usize,
    pub total_trials: usize,
    /// The URL of the search that counts all matches, relative to the root. Empty if this page has
    /// them all, or counts them.
    pub count_all: String,
    /// Why the search was rejected. Empty if it was not.
    pub refused: String,
}

#[derive(Serialize)]
struct PageContext<'a> {
    search: &'a SearchResults,
    links: &'a Links<'a>,
    live: bool,
}

/// # Errors
/// See [`super::render_trial`].
pub fn render_search(search: &SearchResults, links: &Links<'_>) -> Result<String, Error> {
    render_template("search.html", PageContext { search, links, live: false })
}
