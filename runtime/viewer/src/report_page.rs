//! Renders a run's report, as `proctor report --format html` does.

use proctor_record::RunDir;
use proctor_report::{add_labels, compare, run_remarks};

use super::viewed_run::ViewedRun;
use crate::{
    ViewError,
    html::{NamedRun, ReportPage, render_report},
};

pub fn report_page(run: &ViewedRun) -> Result<String, ViewError> {
    let read = run.current_results()?;
    let mut report = read.report.clone();
    let (remarks, _) = run_remarks(&run.path, false)?;
    report.remarks = remarks.into_iter().collect();
    add_labels(&mut report, &RunDir::open_read_only(&run.path)?.read_labels().entries);
    let comparison = (run.record.arms.len() > 1).then(|| compare(&read.results, None));
    let runs = [NamedRun { name: run.name.clone(), record: run.record.clone() }];
    let page = ReportPage {
        report: &report,
        comparison: comparison.as_ref(),
        trials: &read.results,
        runs: &runs,
        curves: &[],
    };
    Ok(render_report(&page)?)
}
