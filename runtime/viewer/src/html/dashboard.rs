//! The dashboard: several runs, each with its progress and the scores of its arms.

use minijinja::Error;
use serde::Serialize;

use super::{Links, templates::render_template};

/// The content of the dashboard.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Dashboard {
    pub runs: Vec<DashboardRun>,
    /// Whether the page may still change because a run is not finished.
    pub live: bool,
}

/// A run on the dashboard.
#[derive(Debug, Clone, Default, Serialize)]
pub struct DashboardRun {
    pub name: String,
    /// The URL of the run's page, relative to the root. Empty if the run's plan cannot be read.
    pub href: String,
    pub created: String,
    /// The number of arms, tasks and trials, as text.
    pub size: String,
    /// Number of trials that have ended, then the number of all trials.
    pub ended: usize,
    pub trials: usize,
    /// Which trials have no verdict although the run has stopped, as a sentence. Empty if there are
    /// none.
    pub gap: String,
    /// Number of trials that have been read so far, if they have not all been read yet.
    pub read: Option<usize>,
    /// Total cost. Empty if it is not known.
    pub paid: String,
    /// Whether the run is not finished.
    pub live: bool,
    /// The arms under study, the best first.
    pub arms: Vec<ArmScore>,
    /// Number of arms that are not listed.
    pub more_arms: usize,
    /// Why the run cannot be read. Empty if it can.
    pub error: String,
}

/// An arm's score on the dashboard.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ArmScore {
    pub name: String,
    pub resolved: String,
    /// The confidence interval as text. Empty if it is not known.
    pub interval: String,
    /// The score in percent, as the width of a bar.
    pub width: f64,
}

#[derive(Serialize)]
struct PageContext<'a> {
    dashboard: &'a Dashboard,
    links: &'a Links<'a>,
    live: bool,
}

/// # Errors
/// See [`super::render_trial`].
pub fn render_dashboard(dashboard: &Dashboard, links: &Links<'_>) -> Result<String, Error> {
    render_template("dashboard.html", PageContext { dashboard, links, live: dashboard.live })
}
