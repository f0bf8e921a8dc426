//! The leak check of a single trial. It combines the layer's findings with a scan of the prepared
//! work directory.

use std::fmt::Write as _;

use proctor_sandbox_api::{
    SandboxHandle,
    wire::{RawPath, ScanRequest},
};
use proctor_types::{Fault, FaultCause, FaultLayer, OnFinding, Task};
use serde::Serialize;

use super::{
    layer::{LayerFindings, ScanStats},
    leak::Leak,
    policy::LeakPolicy,
    removal::remove_leak,
    surroundings,
};
use crate::HiddenCopies;

/// Maximum number of findings to list in the error. The rest are only counted.
const MAX_LISTED_FINDINGS: usize = 5;

/// The result of the leak check for a sandbox in which the agent may run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LeakReport {
    /// One sentence for each removal that the policy required.
    pub removed: Vec<String>,
    /// Statistics of skipped files: the sum for the layer's scan and the trial's own scan.
    pub unseen: ScanStats,
    /// Paths in the task's `hidden` list that match no file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unmatched: Vec<String>,
}

/// Scans the parts of the sandbox that the layer's scan could not cover, and removes or rejects
/// what it finds.
///
/// # Errors
/// Returns a setup fault that names the locations if a finding cannot or may not be removed. In
/// that case, the trial does not run.
pub(crate) async fn verify_sandbox(
    handle: &SandboxHandle,
    task: &Task,
    findings: &LayerFindings,
    hidden_copies: &HiddenCopies,
    on_finding: OnFinding,
) -> Result<LeakReport, Fault> {
    let policy = LeakPolicy::get()?;
    let mut roots = vec![RawPath::from(task.workdir.as_str())];
    roots.extend(policy.volatile.iter().map(|path| RawPath::from(path.as_str())));
    // Also check that the content that was hidden at the sandbox's start is no longer there.
    roots.extend(findings.leaks.iter().filter_map(|leak| leak.remove.clone()));
    let request = ScanRequest { roots, skip: Vec::new(), suffixes: None, limits: policy.limits };
    let reply = findings.scan(handle, request).await?;
    let mut unseen = findings.unseen;
    unseen.add_reply(&reply);
    let own = reply.findings.iter().map(|found| Leak::from_finding(found, &findings.labeled));
    let mut leaks: Vec<Leak> = own.collect();
    leaks.extend(surroundings::search_surroundings(handle, task).await?);
    let mut seen = Vec::new();
    // The volatile directories are also part of the layer, so a leak there may be found twice.
    leaks.retain(|leak| match seen.contains(&leak.place) {
        true => false,
        false => {
            seen.push(leak.place.clone());
            true
        }
    });
    let mut removed = hidden_copies.removed_copies.clone();
    let mut stay = Vec::new();
    for leak in leaks {
        match on_finding == OnFinding::Remove && remove_leak(handle, &leak).await? {
            true => removed.push(leak.to_string()),
            false => stay.push(leak),
        }
    }
    if stay.is_empty() && !unseen.more {
        return Ok(LeakReport { removed, unseen, unmatched: findings.unmatched.clone() });
    }
    Err(leak_fault(task, &stay, unseen.more, on_finding))
}

/// Returns a fault that lists the locations of readable hidden content.
pub(crate) fn leak_fault(
    task: &Task,
    leaks: &[Leak],
    is_truncated: bool,
    on_finding: OnFinding,
) -> Fault {
    let mut what = String::from("copies of the hidden solution are readable in the sandbox");
    for leak in leaks.iter().take(MAX_LISTED_FINDINGS) {
        let _ = write!(what, "; {leak}");
    }
    if leaks.len() > MAX_LISTED_FINDINGS {
        let _ = write!(what, "; and {} more", leaks.len() - MAX_LISTED_FINDINGS);
    }
    if is_truncated {
        what.push_str("; and more that are not listed");
    }
    let hint = match on_finding {
        OnFinding::Refuse => {
            "remove them in the environment's setup, add them to `hidden`, or set leak_check.on_finding = \"remove\""
        }
        OnFinding::Remove => {
            "they cannot be removed from a running sandbox: remove them in the environment's \
             setup, on the host or in the image"
        }
    };
    Fault::new(FaultLayer::Setup, what).cause(FaultCause::Leak).context(&task.id).hint(hint)
}
