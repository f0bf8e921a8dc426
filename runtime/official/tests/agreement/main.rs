//! Compares Proctor with the official graders' own code on the same logs.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

mod compare;
mod graders;
#[path = "../../../../tests/not_run.rs"]
mod not_run;
#[path = "../../../../tests/sample.rs"]
mod sample;
#[path = "../../../../tests/tier.rs"]
mod tier;

use compare::Tally;
use graders::Graders;

/// Compares every map of statuses and every verdict, for logs of real runs and handwritten logs. In
/// the core tier, the real runs use only one version of pytest.
#[test]
fn official_graders_agree_on_every_log() {
    let Some(graders) = Graders::fetch("official_graders_agree_on_every_log") else { return };
    let made = graders.make_logs();
    let mut tally = Tally::default();
    for results in graders.grade() {
        tally.compare_results(&graders.logs_dir(), &results);
    }
    println!("{made}\n{}", tally.summary());
    tally.assert_agreement();
    let min_logs = if tier::is_full() { 300 } else { 270 };
    assert!(tally.log_count() >= min_logs, "{} logs are too few", tally.log_count());
    let (logs, parsers) = tally.language_counts();
    assert!(logs >= 260, "{logs} logs of other languages are too few");
    // There are 37 names, but two of them belong to the same parser.
    assert_eq!(parsers, 36);
}
