//! Builds the dashboard of several runs.

use std::{
    cmp::Reverse,
    time::{Duration, Instant, UNIX_EPOCH},
};

use proctor_report::{ArmReport, format_dollars, format_percent};
use proctor_types::count_with_noun;

use super::{
    Pages,
    gap::verdict_gap,
    results::{PRELOAD_PATIENCE, RunResults},
    urls::UrlForm,
    viewed_run::ViewedRun,
};
use crate::html::{ArmScore, Dashboard, DashboardRun};

/// Maximum number of arms listed for a run.
const MAX_LISTED_ARMS: usize = 6;

/// Returns the dashboard. The newest run comes first, and the runs whose plan cannot be read come
/// last.
pub fn dashboard(pages: &Pages, form: UrlForm) -> Dashboard {
    let mut newest_first: Vec<&ViewedRun> = pages.runs.iter().collect();
    newest_first.sort_by_key(|run| Reverse(run.record.created));
    let deadline = Instant::now() + PRELOAD_PATIENCE;
    // If a run cannot be read, the others are still shown.
    let runs = newest_first.into_iter().map(|run| {
        let patience = deadline.saturating_duration_since(Instant::now());
        if let Some(read) = run.wait_for_preload(patience) {
            let trials = run.planned_count();
            return DashboardRun { read: Some(read), trials, live: true, ..planned_run(run, form) };
        }
        match run.current_results() {
            Ok(results) => dashboard_run(run, &results, form),
            Err(error) => DashboardRun { error: error.to_string(), ..planned_run(run, form) },
        }
    });
    let unreadable = pages.unreadable.iter().map(|run| DashboardRun {
        name: run.name.clone(),
        error: run.error.to_string(),
        ..DashboardRun::default()
    });
    let runs: Vec<DashboardRun> = runs.chain(unreadable).collect();
    Dashboard { live: runs.iter().any(|run| run.live), runs }
}

/// Returns what the plan says about a run.
fn planned_run(run: &ViewedRun, form: UrlForm) -> DashboardRun {
    let created = UNIX_EPOCH + Duration::from_secs(run.record.created);
    DashboardRun {
        name: run.name.clone(),
        href: form.run_url(run.number),
        created: httpdate::fmt_http_date(created),
        ..DashboardRun::default()
    }
}

fn dashboard_run(run: &ViewedRun, results: &RunResults, form: UrlForm) -> DashboardRun {
    let report = &results.report;
    let mut arms = report.arms_under_study();
    arms.sort_by(|a, b| b.resolved_rate.total_cmp(&a.resolved_rate));
    let more_arms = arms.len().saturating_sub(MAX_LISTED_ARMS);
    let size = [
        count_with_noun(arms.len(), "arm"),
        count_with_noun(run.record.tasks.len(), "task"),
        count_with_noun(results.results.len(), "trial"),
    ];
    let paid: f64 = report.arms.iter().map(|arm| arm.paid.cost_usd).sum();
    let is_estimated = report.arms.iter().any(|arm| arm.usage_estimated);
    let about = if is_estimated { "~" } else { "" };
    DashboardRun {
        size: size.join(", "),
        ended: results.ended_count(),
        trials: results.results.len(),
        paid: match report.arms.iter().all(|arm| arm.paid.cost_known) {
            true => format!("{about}{}", format_dollars(paid)),
            false => String::new(),
        },
        gap: verdict_gap(run, results, form).summary,
        live: results.is_live(),
        arms: arms.into_iter().take(MAX_LISTED_ARMS).map(arm_score).collect(),
        more_arms,
        ..planned_run(run, form)
    }
}

fn arm_score(arm: &ArmReport) -> ArmScore {
    ArmScore {
        name: arm.name.clone(),
        resolved: format_percent(arm.resolved_rate),
        interval: arm.intervals.resolved_rate.map_or_else(String::new, |[lower, upper]| {
            format!("{:.1} to {:.1}", lower * 100.0, upper * 100.0)
        }),
        width: (arm.resolved_rate * 1000.0).round() / 10.0,
    }
}
