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
const LIMIT: Duration = Duration::from_secs(180);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckResult {
    pub name: &'static str,
    pub passed: bool,
    /// Why the check was skipped: the entry that lists its limit as not enforced.
    pub skipped_reason: Option<String>,
    pub took: Duration,
    /// Why the check failed.
    pub why: Option<String>,
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
    prepared: &PreparedEnvironment,
    quick: bool,
) -> Vec<CheckResult> {
    let mut shared: Option<Box<dyn Sandbox>> = None;
    let mut results = Vec::new();
    for check in checks().into_iter().filter(|check| check.quick || !quick) {
        let started = Instant::now();
        let outcome = match sandbox_for(backend, prepared, &mut shared).await {
            Ok(sandbox) => {
                let (handle, enforcement) =
                    (Arc::clone(sandbox.handle()), sandbox.enforcement().clone());
                let fixture = Fixture { backend, prepared, handle, enforcement };
                let run = tokio::time::timeout(LIMIT, (check.body)(&fixture)).await;
                run.unwrap_or_else(|_| {
                    fixture.handle.disconnect("a check hung");
                    Err(CheckError::Wrong(format!("hung for {} s", LIMIT.as_secs())))
                })
            }
            Err(fault) => Err(CheckError::Wrong(fault.to_string())),
        };
        let took = started.elapsed();
        let (passed, skipped_reason, why) = match outcome {
            Ok(()) => (true, None, None),
            Err(CheckError::Skipped(reason)) => (false, Some(reason), None),
            Err(CheckError::Wrong(why)) => (false, None, Some(why)),
        };
        results.push(CheckResult { name: check.name, passed, skipped_reason, took, why });
    }
    if let Some(mut sandbox) = shared
        && let Err(fault) = sandbox.close().await
        && let Some(last) = results.last_mut()
    {
        last.passed = false;
        last.why = Some(format!("cannot close the kit's sandbox: {fault}"));
    }
    results
}

async fn sandbox_for<'s>(
    backend: &dyn Backend,
    prepared: &PreparedEnvironment,
    shared: &'s mut Option<Box<dyn Sandbox>>,
) -> Result<&'s dyn Sandbox, Fault> {
    if let Some(mut broken) = shared.take_if(|sandbox| sandbox.handle().broken_reason().is_some()) {
        broken.close().await?;
    }
    let sandbox = match shared.take() {
        Some(sandbox) => sandbox,
        None => {
            let spec = SandboxRequest {
                environment: prepared.clone(),
                limits: SandboxSpec::default(),
                mounts: Vec::new(),
                purpose: "conformance kit".to_owned(),
            };
            backend.open(&spec).await?
        }
    };
    Ok(&**shared.insert(sandbox))
}

/// Returns the reasons why `results` do not prove that all `listed` checks pass: failures, and
/// missing or duplicate results. If more than `skips` checks were skipped, the list also includes
/// those, because a list that is mostly skipped proves nothing.
pub fn find_unproven<'a>(
    listed: impl IntoIterator<Item = &'a str>,
    skips: usize,
    results: &[CheckResult],
) -> Vec<String> {
    let mut missed = Vec::new();
    let mut skipped = Vec::new();
    let mut any = false;
    for name in listed {
        any = true;
        let of_name: Vec<_> = results.iter().filter(|result| result.name == name).collect();
        match of_name[..] {
            [CheckResult { passed: true, .. }] => {}
            [CheckResult { skipped_reason: Some(reason), .. }] => {
                skipped.push(format!("{name}: skipped: {reason}"));
            }
            [result] => {
                missed.push(format!("{name}: {}", result.why.as_deref().unwrap_or("failed")));
            }
            [] => missed.push(format!("{name}: was not run")),
            _ => missed.push(format!("{name}: has {} results", of_name.len())),
        }
    }
    if !any {
        missed.push("nothing is listed".to_owned());
    }
    if skipped.len() > skips {
        missed.append(&mut skipped);
    }
    missed
}

/// Renders the results, one line per check with its duration in milliseconds, and then the totals.
pub fn render(results: &[CheckResult]) -> String {
    let mut out = String::new();
    for result in results {
        let CheckResult { name, passed, skipped_reason, took, why } = result;
        let mark = match (passed, skipped_reason) {
            (true, _) => "ok",
            (false, Some(_)) => "skip",
            (false, None) => "FAIL",
        };
        let note = skipped_reason.as_deref().or(why.as_deref()).unwrap_or_default();
        let _ =
            writeln!(out, "{mark:<4} {name:<48} {:>9.1} ms  {note}", took.as_secs_f64() * 1000.0);
    }
    let passed = results.iter().filter(|result| result.passed).count();
    let skipped = results.iter().filter(|result| result.skipped_reason.is_some()).count();
    let failed = results.len() - passed - skipped;
    let _ = writeln!(out, "{passed} passed, {failed} failed, {skipped} skipped");
    out
}

/// Writes the results to standard error, each line with the prefix `conformance <backend>`. The
/// test harness captures printed output but not this, so every log of a test run contains the
/// results.
pub fn announce(backend: &str, results: &[CheckResult]) {
    // Write everything at once and start on a new line, because the harness prints at the same
    // time.
    let mut text = String::from("\n");
    for line in render(results).lines() {
        let _ = writeln!(text, "conformance {backend} {line}");
    }
    let _ = std::io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(name: &'static str, passed: bool, skipped: Option<&str>) -> CheckResult {
        let skipped_reason = skipped.map(str::to_owned);
        CheckResult { name, passed, skipped_reason, took: Duration::ZERO, why: None }
    }

    #[test]
    fn find_unproven_returns_failed_missing_and_duplicate_results() {
        let passed: Vec<_> = ["a", "b", "c"].map(|name| result(name, true, None)).into();
        assert_eq!(find_unproven(["a", "b", "c"], 0, &passed), Vec::<String>::new());
        assert_eq!(find_unproven(["a", "d"], 0, &passed), ["d: was not run"]);
        assert_eq!(find_unproven([], 0, &passed), ["nothing is listed"]);
        let twice = [result("a", true, None), result("a", true, None)];
        assert_eq!(find_unproven(["a"], 0, &twice), ["a: has 2 results"]);
        assert_eq!(find_unproven(["a"], 1, &[result("a", false, None)]), ["a: failed"]);
    }

    #[test]
    fn find_unproven_returns_skipped_results_above_the_limit() {
        let results = [result("a", false, Some("no quota")), result("b", false, Some("no quota"))];
        assert_eq!(find_unproven(["a", "b"], 2, &results), Vec::<String>::new());
        let said = ["a: skipped: no quota", "b: skipped: no quota"];
        assert_eq!(find_unproven(["a", "b"], 1, &results), said);
    }
}
