//! The comparison of a run's arms, as a separate page. The run's page loads it afterwards, because
//! comparing thousands of trials takes longer than reading their scores.

use minijinja::Error;
use proctor_report::{Comparison, Report};
use serde::Serialize;

use super::{
    Links,
    figures::forest_plots,
    plot::StripChart,
    summary::{HeadlineRow, headline_rows},
    templates::render_template,
};

#[derive(Serialize)]
struct PageContext<'a> {
    run: &'a str,
    /// The URL of the run's report, relative to the root and without the suffix.
    report: &'a str,
    headlines: Vec<HeadlineRow>,
    more_headlines: String,
    forests: Vec<StripChart>,
    links: &'a Links<'a>,
    live: bool,
}

/// Renders the comparison. `run` is the run's name, and `report_url` the URL of its report.
///
/// # Errors
/// See [`super::render_trial`].
pub fn render_comparison(
    run: &str,
    report_url: &str,
    report: &Report,
    comparison: Option<&Comparison>,
    links: &Links<'_>,
) -> Result<String, Error> {
    let (headlines, more_headlines) = headline_rows(report, comparison);
    let filling = PageContext {
        run,
        report: report_url,
        headlines,
        more_headlines,
        forests: comparison.map(forest_plots).unwrap_or_default(),
        links,
        live: false,
    };
    render_template("comparison.html", filling)
}
