//! Renders a run's report, as `proctor report --format html` does, and the comparison of its arms.

use proctor_record::RunDir;
use proctor_report::{add_labels, run_remarks};

use super::{
    planned_trials,
    urls::{UrlForm, report_url},
    viewed_run::ViewedRun,
};
use crate::{
    ViewError,
    html::{Links, NamedRun, ReportPage, ReportUrls, render_comparison, render_report},
};

/// Renders a run's report. `links` has the run's page and the root of the URLs.
pub fn report_page(run: &ViewedRun, links: &Links<'_>) -> Result<String, ViewError> {
    let read = run.current_results()?;
    let mut report = read.report.clone();
    let (remarks, _) = run_remarks(&run.path, false)?;
    report.remarks = remarks.into_iter().collect();
    add_labels(&mut report, &RunDir::open_read_only(&run.path)?.read_labels().entries);
    let runs = [NamedRun { name: run.name.clone(), record: run.record.clone() }];
    // An exported report may be sent without the other files, so it has no links to them.
    let urls = links.served.then(|| served_urls(run, links));
    let page = ReportPage {
        report: &report,
        comparison: read.comparison(),
        trials: &read.results,
        runs: &runs,
        curves: &[],
        urls: urls.as_ref(),
    };
    Ok(render_report(&page)?)
}

fn served_urls(run: &ViewedRun, links: &Links<'_>) -> ReportUrls {
    let planned = planned_trials(&run.record);
    let trials = planned
        .iter()
        .map(|trial| format!("{}{}", links.root, UrlForm::ServerPath.trial_url(run.number, trial)));
    ReportUrls { run: format!("{}{}", links.root, links.run_page), trials: trials.collect() }
}

pub fn comparison_page(run: &ViewedRun, links: &Links<'_>) -> Result<String, ViewError> {
    let read = run.current_results()?;
    let report = report_url(run.number);
    Ok(render_comparison(&run.name, &report, &read.report, read.comparison(), links)?)
}
