//! The page that a run's page shows until its trials have been read for the first time.

use minijinja::Error;
use serde::Serialize;

use super::{Links, templates::render_template};

#[derive(Serialize)]
struct PageContext<'a> {
    run: &'a str,
    read: usize,
    trials: usize,
    links: &'a Links<'a>,
    live: bool,
}

/// Renders the page. `read` of `trials` trials have been read.
///
/// # Errors
/// See [`super::render_trial`].
pub fn render_loading_page(
    run: &str,
    read: usize,
    trials: usize,
    links: &Links<'_>,
) -> Result<String, Error> {
    render_template("loading.html", PageContext { run, read, trials, links, live: true })
}
