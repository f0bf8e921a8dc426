//! Results for patches whose grading ends before the tests have run.

use std::collections::BTreeMap;

use proctor_sandbox_api::SandboxHandle;
use proctor_types::{Fault, Task};

use crate::{
    GradeOptions, GradingResult,
    evidence::{self, new_evidence},
    exhaustion,
    verdict::build_verdict,
};

/// Returns the verdict if the sandbox failed because of the applied patch.
pub(super) async fn build_exhausted_result(
    handle: &SandboxHandle,
    task: &Task,
    options: &GradeOptions,
    fault: Fault,
) -> Result<GradingResult, Fault> {
    let found = exhaustion::exhaustion_evidence(handle, fault).await?;
    let log = format!("grading failed: {}\n", found.what).into_bytes();
    let verdict = build_verdict(task, &BTreeMap::new(), false, vec![found], &options.quarantine)?;
    Ok(GradingResult { verdict, log, raw_results: Vec::new() })
}

/// Returns the verdict for a patch that cannot be applied.
pub(super) fn build_rejected_result(
    task: &Task,
    options: &GradeOptions,
    error: &dyn std::fmt::Display,
) -> Result<GradingResult, Fault> {
    let what = error.to_string();
    let log = format!("rejected the patch: {what}\n").into_bytes();
    let evidence = vec![new_evidence(evidence::PATCH_REJECTED_KIND, what)];
    let verdict = build_verdict(task, &BTreeMap::new(), false, evidence, &options.quarantine)?;
    Ok(GradingResult { verdict, log, raw_results: Vec::new() })
}
