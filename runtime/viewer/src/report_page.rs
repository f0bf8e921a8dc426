//! Renders a run's report, as `proctor report --format html` does, and the comparison of its arms.

use proctor_record::RunDir;
use proctor_report::{add_labels, run_remarks};

use super::{address::report_address, viewed_run::ViewedRun};
use crate::{
    ViewError,
    html::{Links, NamedRun, ReportPage, render_comparison, render_report},
};

pub fn report_page(run: &ViewedRun) -> Result<String, ViewError> {
    let read = run.current_results()?;
    let mut report = read.report.clone();
    let (remarks, _) = run_remarks(&run.path, false)?;
    report.remarks = remarks.into_iter().collect();
    add_labels(&mut report, &RunDir::open_read_only(&run.path)?.read_labels().entries);
    let runs = [NamedRun { name: run.name.clone(), record: run.record.clone() }];
    let page = ReportPage {
        report: &report,
        comparison: read.comparison(),
        trials: &read.results,
        runs: &runs,
        curves: &[],
    };
    Ok(render_report(&page)?)
}

pub fn comparison_page(run: &ViewedRun, links: &Links<'_>) -> Result<String, ViewError> {
    let read = run.current_results()?;
    let report = report_address(run.number);
    Ok(render_comparison(&run.name, &report, &read.report, read.comparison(), links)?)
}
