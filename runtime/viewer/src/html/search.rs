//! The results of a search in a run.

use minijinja::Error;
use serde::Serialize;

use super::{Links, templates::fill};

/// A place where a text was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Hit {
    /// The trial's name for people, and its address relative to the root.
    pub trial: String,
    pub href: String,
    /// 0: before the first response.
    pub step: u64,
    /// `message`, `output` and the like.
    pub place: String,
    pub before: String,
    pub found: String,
    pub after: String,
    /// Further places in the same text.
    pub more: usize,
    /// The found text as a text fragment, which browsers that support it scroll to.
    pub fragment: String,
}

/// The result of a search.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Search {
    pub text: String,
    pub pattern: bool,
    /// A trial's address, if only that trial was searched.
    pub trial: String,
    pub hits: Vec<Hit>,
    /// There are more.
    pub cut: bool,
    /// Number of journals that were read, and of all.
    pub read: usize,
    pub of: usize,
    /// Why the search was not possible.
    pub refused: String,
}

#[derive(Serialize)]
struct Filling<'a> {
    search: &'a Search,
    links: &'a Links<'a>,
    live: bool,
}

/// # Errors
/// See [`super::trial`].
pub fn search(search: &Search, links: &Links<'_>) -> Result<String, Error> {
    fill("search.html", Filling { search, links, live: false })
}
