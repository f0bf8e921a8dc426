//! What was found in a run.

use minijinja::Error;
use serde::Serialize;

use crate::{Links, templates::fill};

/// A place where a text was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Hit {
    /// The trial, for people, and its address behind the root.
    pub trial: String,
    pub href: String,
    /// 0: before the first answer.
    pub step: u64,
    /// `message`, `output` and the like.
    pub place: String,
    pub before: String,
    pub found: String,
    pub after: String,
    /// Further places in the same text.
    pub more: usize,
    /// The found text, as a browser that knows how is led to it.
    pub fragment: String,
}

/// An answer to a search.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Search {
    pub text: String,
    pub pattern: bool,
    /// A trial's address, where only that was asked for.
    pub trial: String,
    pub hits: Vec<Hit>,
    /// There are more.
    pub cut: bool,
    /// Journals that were read, and those that there are.
    pub read: usize,
    pub of: usize,
    /// Why nothing could be looked for.
    pub refused: String,
}

#[derive(Serialize)]
struct Filling<'a> {
    search: &'a Search,
    links: &'a Links<'a>,
    live: bool,
}

/// # Errors
/// See [`crate::trial`].
pub fn search(search: &Search, links: &Links<'_>) -> Result<String, Error> {
    fill("search.html", Filling { search, links, live: false })
}
