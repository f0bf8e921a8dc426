//! The leak check of one trial: the layer's findings, and what setup made of the work directory.

use std::fmt::Write as _;

use proctor_sandbox_api::{
    SandboxHandle,
    wire::{RawPath, ScanRequest},
};
use proctor_types::{Fault, Layer, OnFinding, Task};
use serde::Serialize;

use super::{
    around,
    layer::{LayerFindings, Unseen},
    leak::{Leak, LeakKind},
    policy::LeakPolicy,
};

/// Findings that a refusal names; of more the number.
const NAMED: usize = 5;

/// A setup that may be driven on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LeakReport {
    /// What the policy had removed, as sentences.
    pub removed: Vec<String>,
    /// What was not looked into: by the layer's scan and the trial's own together.
    pub unseen: Unseen,
}

/// Looks through what the layer's scan could not know, and acts on all findings.
///
/// # Errors
/// A setup fault that names the places, where something is found and may not be removed or
/// cannot be: the trial is not run.
pub(crate) async fn verify(
    handle: &SandboxHandle,
    task: &Task,
    layer: &LayerFindings,
    on_finding: OnFinding,
) -> Result<LeakReport, Fault> {
    let policy = LeakPolicy::get()?;
    let mut roots = vec![RawPath::from(task.workdir.as_str())];
    roots.extend(policy.volatile.iter().map(|path| RawPath::from(path.as_str())));
    // That they are covered is seen, not believed.
    roots.extend(layer.covers(task));
    let request = ScanRequest { roots, skip: Vec::new(), suffixes: None, limits: policy.limits };
    let reply = layer.scan(handle, request).await?;
    let mut unseen = layer.unseen;
    unseen.add(&reply);
    let own = reply.findings.iter().map(|found| Leak::of(found, &layer.labelled));
    let (covered, found): (Vec<&Leak>, Vec<&Leak>) =
        layer.leaks.iter().partition(|leak| layer.covered(task, leak).is_some());
    let mut leaks: Vec<Leak> = found.into_iter().cloned().chain(own).collect();
    leaks.extend(around::look(handle, task).await?);
    let mut seen = Vec::new();
    // The volatile folders are part of the layer too.
    leaks.retain(|leak| match seen.contains(&leak.place) {
        true => false,
        false => {
            seen.push(leak.place.clone());
            true
        }
    });
    let mut removed: Vec<String> = covered.iter().map(|leak| format!("covered: {leak}")).collect();
    let mut stay = Vec::new();
    for leak in leaks {
        // The package that is to be written again is installed in its environment; grading has a
        // fresh sandbox, where it still is.
        let is_original = task.from_scratch.is_some() && leak.kind == LeakKind::ImportableCopy;
        let may_go = is_original || on_finding == OnFinding::Remove;
        match may_go && remove(handle, &leak).await? {
            true => removed.push(leak.to_string()),
            false => stay.push(leak),
        }
    }
    let leaks = stay;
    if leaks.is_empty() && !unseen.more {
        return Ok(LeakReport { removed, unseen });
    }
    Err(refusal(task, &leaks, unseen.more, on_finding))
}

/// Whether it is gone.
async fn remove(handle: &SandboxHandle, leak: &Leak) -> Result<bool, Fault> {
    let Some(path) = &leak.remove else { return Ok(false) };
    match handle.remove(path).await {
        Ok(()) => Ok(true),
        Err(error) if error.is_broken() => Err(error.fault(format!("removing {path}"))),
        // Part of a base that cannot be written to.
        Err(_) => Ok(false),
    }
}

fn refusal(task: &Task, leaks: &[Leak], is_cut: bool, on_finding: OnFinding) -> Fault {
    let mut what = String::from("the leak check does not hold");
    for leak in leaks.iter().take(NAMED) {
        let _ = write!(what, "; {leak}");
    }
    if leaks.len() > NAMED {
        let _ = write!(what, "; and {} more", leaks.len() - NAMED);
    }
    if is_cut {
        what.push_str("; and more than can be reported");
    }
    let hint = match on_finding {
        OnFinding::Refuse => {
            "remove it in the environment's set-up, list it under `hidden`, or set \
             leak check.on_finding = \"remove\""
        }
        OnFinding::Remove => {
            "this cannot be removed from a sandbox: remove it in the environment's set-up, or from the \
             host or the image"
        }
    };
    Fault::new(Layer::Setup, what).context(&task.id).hint(hint)
}
