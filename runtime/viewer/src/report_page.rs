//! Renders a run's report, as `proctor report --format html` does, and the comparison of its arms.

use proctor_record::RunDir;
use proctor_report::{add_labels, run_remarks};

use super::{
    address::{AddressForm, report_address},
    planned_trials,
    viewed_run::ViewedRun,
};
use crate::{
    ViewError,
    html::{Links, NamedRun, ReportAddresses, ReportPage, render_comparison, render_report},
};

/// Renders a run's report. `links` has the run's page and the root of the addresses.
pub fn report_page(run: &ViewedRun, links: &Links<'_>) -> Result<String, ViewError> {
    let read = run.current_results()?;
    let mut report = read.report.clone();
    let (remarks, _) = run_remarks(&run.path, false)?;
    report.remarks = remarks.into_iter().collect();
    add_labels(&mut report, &RunDir::open_read_only(&run.path)?.read_labels().entries);
    let runs = [NamedRun { name: run.name.clone(), record: run.record.clone() }];
    // An exported report may be sent without the other files, so it has no links to them.
    let addresses = links.served.then(|| served_addresses(run, links));
    let page = ReportPage {
        report: &report,
        comparison: read.comparison(),
        trials: &read.results,
        runs: &runs,
        curves: &[],
        addresses: addresses.as_ref(),
    };
    Ok(render_report(&page)?)
}

fn served_addresses(run: &ViewedRun, links: &Links<'_>) -> ReportAddresses {
    let planned = planned_trials(&run.record);
    let trials = planned.iter().map(|trial| {
        format!("{}{}", links.root, AddressForm::ServerPath.trial_address(run.number, trial))
    });
    ReportAddresses { run: format!("{}{}", links.root, links.run_page), trials: trials.collect() }
}

pub fn comparison_page(run: &ViewedRun, links: &Links<'_>) -> Result<String, ViewError> {
    let read = run.current_results()?;
    let report = report_address(run.number);
    Ok(render_comparison(&run.name, &report, &read.report, read.comparison(), links)?)
}
