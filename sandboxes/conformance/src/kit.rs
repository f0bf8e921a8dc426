//! Lists the checks and runs them.

use std::{
    fmt::Write as _,
    io::Write as _,
    sync::Arc,
    time::{Duration, Instant},
};

use proctor_sandbox_api::{Backend, PreparedEnvironment, Sandbox, SandboxRequest};
use proctor_types::{Fault, SandboxSpec};

use super::{
    check::Check,
    commands, files,
    fixture::{CheckError, Fixture},
    hardening, layers, lifecycle, limits, mounts, outputs, processes, trees,
};

/// How long a check may take before it counts as hung.
const CHECK_TIMEOUT: Duration = Duration::from_secs(180);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckResult {
    pub name: &'static str,
    pub has_passed: bool,
    /// Why the check was skipped: the entry that lists its limit as not enforced.
    pub skip_reason: Option<String>,
    pub duration: Duration,
    /// Why the check failed.
    pub failure_reason: Option<String>,
}

/// Returns all checks in execution order.
pub fn checks() -> Vec<Check> {
    [
        outputs::checks(),
        commands::checks(),
        processes::checks(),
        files::checks(),
        trees::checks(),
        layers::checks(),
        hardening::checks(),
        mounts::checks(),
        limits::checks(),
        lifecycle::checks(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Runs all checks, or only the quick ones, one at a time. If a check breaks the shared sandbox,
/// the next check gets a new one.
pub async fn run_kit(
    backend: &dyn Backend,
    environment: &PreparedEnvironment,
    quick_only: bool,
) -> Vec<CheckResult> {
    let mut shared: Option<Box<dyn Sandbox>> = None;
    let mut results = Vec::new();
    for check in checks().into_iter().filter(|check| check.quick || !quick_only) {
        let started = Instant::now();
        let outcome = match open_shared_sandbox(backend, environment, &mut shared).await {
            Ok(sandbox) => {
                let (handle, enforcement) =
                    (Arc::clone(sandbox.handle()), sandbox.enforcement().clone());
                let fixture = Fixture { backend, environment, handle, enforcement };
                let run = tokio::time::timeout(CHECK_TIMEOUT, (check.body)(&fixture)).await;
                run.unwrap_or_else(|_| {
                    fixture.handle.disconnect("a check hung");
                    Err(CheckError::Failed(format!("hung for {} s", CHECK_TIMEOUT.as_secs())))
                })
            }
            Err(fault) => Err(CheckError::Failed(fault.to_string())),
        };
        let took = started.elapsed();
        let (passed, skipped_reason, why) = match outcome {
            Ok(()) => (true, None, None),
            Err(CheckError::Skipped(reason)) => (false, Some(reason), None),
            Err(CheckError::Failed(why)) => (false, None, Some(why)),
        };
        results.push(CheckResult {
            name: check.name,
            has_passed: passed,
            skip_reason: skipped_reason,
            duration: took,
            failure_reason: why,
        });
    }
    if let Some(mut sandbox) = shared
        && let Err(fault) = sandbox.close().await
        && let Some(last) = results.last_mut()
    {
        last.has_passed = false;
        last.failure_reason = Some(format!("cannot close the kit's sandbox: {fault}"));
    }
    results
}

async fn open_shared_sandbox<'s>(
    backend: &dyn Backend,
    environment: &PreparedEnvironment,
    shared_sandbox: &'s mut Option<Box<dyn Sandbox>>,
) -> Result<&'s dyn Sandbox, Fault> {
    if let Some(mut broken) =
        shared_sandbox.take_if(|sandbox| sandbox.handle().broken_reason().is_some())
    {
        broken.close().await?;
    }
    let sandbox = match shared_sandbox.take() {
        Some(sandbox) => sandbox,
        None => {
            let spec = SandboxRequest {
                environment: environment.clone(),
                limits: SandboxSpec::default(),
                mounts: Vec::new(),
                purpose: "conformance kit".to_owned(),
            };
            backend.open(&spec).await?
        }
    };
    Ok(&**shared_sandbox.insert(sandbox))
}

/// Returns the reasons why `results` do not prove that all `check_names` checks pass: failures, and
/// missing or duplicate results. If more than `max_skips` checks were skipped, the list also
/// includes those, because a list that is mostly skipped proves nothing.
pub fn find_unproven<'a>(
    check_names: impl IntoIterator<Item = &'a str>,
    max_skips: usize,
    results: &[CheckResult],
) -> Vec<String> {
    let mut missed = Vec::new();
    let mut skipped = Vec::new();
    let mut any = false;
    for name in check_names {
        any = true;
        let of_name: Vec<_> = results.iter().filter(|result| result.name == name).collect();
        match of_name[..] {
            [CheckResult { has_passed: true, .. }] => {}
            [CheckResult { skip_reason: Some(reason), .. }] => {
                skipped.push(format!("{name}: skipped: {reason}"));
            }
            [result] => {
                missed.push(format!(
                    "{name}: {}",
                    result.failure_reason.as_deref().unwrap_or("failed")
                ));
            }
            [] => missed.push(format!("{name}: was not run")),
            _ => missed.push(format!("{name}: has {} results", of_name.len())),
        }
    }
    if !any {
        missed.push("no checks are listed".to_owned());
    }
    if skipped.len() > max_skips {
        missed.append(&mut skipped);
    }
    missed
}

/// Renders the results, one line per check with its duration in milliseconds, and then the totals.
pub fn render_results(results: &[CheckResult]) -> String {
    let mut out = String::new();
    for result in results {
        let CheckResult {
            name,
            has_passed: passed,
            skip_reason: skipped_reason,
            duration: took,
            failure_reason: why,
        } = result;
        let mark = match (passed, skipped_reason) {
            (true, _) => "ok",
            (false, Some(_)) => "skip",
            (false, None) => "FAIL",
        };
        let note = skipped_reason.as_deref().or(why.as_deref()).unwrap_or_default();
        let _ =
            writeln!(out, "{mark:<4} {name:<48} {:>9.1} ms  {note}", took.as_secs_f64() * 1000.0);
    }
    let passed = results.iter().filter(|result| result.has_passed).count();
    let skipped = results.iter().filter(|result| result.skip_reason.is_some()).count();
    let failed = results.len() - passed - skipped;
    let _ = writeln!(out, "{passed} passed, {failed} failed, {skipped} skipped");
    out
}

/// Writes the results to standard error, each line with the prefix `conformance <backend>`. The
/// test harness captures printed output but not this, so every log of a test run contains the
/// results.
pub fn print_results(backend: &str, results: &[CheckResult]) {
    // Write everything at once and start on a new line, because the harness prints at the same
    // time.
    let mut text = String::from("\n");
    for line in render_results(results).lines() {
        let _ = writeln!(text, "conformance {backend} {line}");
    }
    let _ = std::io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_result(
        name: &'static str,
        has_passed: bool,
        skip_reason: Option<&str>,
    ) -> CheckResult {
        let skipped_reason = skip_reason.map(str::to_owned);
        CheckResult {
            name,
            has_passed,
            skip_reason: skipped_reason,
            duration: Duration::ZERO,
            failure_reason: None,
        }
    }

    #[test]
    fn find_unproven_returns_failed_missing_and_duplicate_results() {
        let passed: Vec<_> = ["a", "b", "c"].map(|name| check_result(name, true, None)).into();
        assert_eq!(find_unproven(["a", "b", "c"], 0, &passed), Vec::<String>::new());
        assert_eq!(find_unproven(["a", "d"], 0, &passed), ["d: was not run"]);
        assert_eq!(find_unproven([], 0, &passed), ["no checks are listed"]);
        let twice = [check_result("a", true, None), check_result("a", true, None)];
        assert_eq!(find_unproven(["a"], 0, &twice), ["a: has 2 results"]);
        assert_eq!(find_unproven(["a"], 1, &[check_result("a", false, None)]), ["a: failed"]);
    }

    #[test]
    fn find_unproven_returns_skipped_results_above_the_limit() {
        let results = [
            check_result("a", false, Some("no quota")),
            check_result("b", false, Some("no quota")),
        ];
        assert_eq!(find_unproven(["a", "b"], 2, &results), Vec::<String>::new());
        let said = ["a: skipped: no quota", "b: skipped: no quota"];
        assert_eq!(find_unproven(["a", "b"], 1, &results), said);
    }
}
