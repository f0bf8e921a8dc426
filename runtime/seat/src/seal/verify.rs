//! The seal of one trial: the layer's findings, and what the seat made of the work directory.

use std::fmt::Write as _;

use proctor_sandbox_api::{
    Room,
    wire::{RawPath, ScanRequest},
};
use proctor_types::{Fault, Layer, OnFinding, Task};
use serde::Serialize;

use super::{
    around,
    layer::{LayerSeal, Unseen},
    leak::{Leak, LeakKind},
    policy::SealPolicy,
};

/// Findings that a refusal names; of more the number.
const NAMED: usize = 5;

/// A seat that may be driven on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Sealed {
    /// What the policy had removed, as sentences.
    pub removed: Vec<String>,
    /// What was not looked into: by the layer's scan and the trial's own together.
    pub unseen: Unseen,
}

/// Looks through what the layer's scan could not know, and acts on all findings.
///
/// # Errors
/// A fault of the seat that names the places, where something is found and may not be removed or
/// cannot be: the trial is not run.
pub(crate) async fn verify(
    room: &Room,
    task: &Task,
    layer: &LayerSeal,
    on_finding: OnFinding,
) -> Result<Sealed, Fault> {
    let policy = SealPolicy::get()?;
    let mut roots = vec![RawPath::from(task.workdir.as_str())];
    roots.extend(policy.volatile.iter().map(|path| RawPath::from(path.as_str())));
    // That they are covered is seen, not believed.
    roots.extend(layer.covers(task));
    let request = ScanRequest { roots, skip: Vec::new(), suffixes: None, limits: policy.limits };
    let reply = layer.scan(room, request).await?;
    let mut unseen = layer.unseen;
    unseen.add(&reply);
    let own = reply.findings.iter().map(|found| Leak::of(found, &layer.labelled));
    let (covered, found): (Vec<&Leak>, Vec<&Leak>) =
        layer.leaks.iter().partition(|leak| layer.covered(task, leak).is_some());
    let mut leaks: Vec<Leak> = found.into_iter().cloned().chain(own).collect();
    leaks.extend(around::look(room, task).await?);
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
        // fresh room, where it still is.
        let is_original = task.from_scratch.is_some() && leak.kind == LeakKind::ImportableCopy;
        let may_go = is_original || on_finding == OnFinding::Remove;
        match may_go && remove(room, &leak).await? {
            true => removed.push(leak.to_string()),
            false => stay.push(leak),
        }
    }
    let leaks = stay;
    if leaks.is_empty() && !unseen.more {
        return Ok(Sealed { removed, unseen });
    }
    Err(refusal(task, &leaks, unseen.more, on_finding))
}

/// Whether it is gone.
async fn remove(room: &Room, leak: &Leak) -> Result<bool, Fault> {
    let Some(path) = &leak.remove else { return Ok(false) };
    match room.remove(path).await {
        Ok(()) => Ok(true),
        Err(error) if error.is_broken() => Err(error.fault(format!("removing {path}"))),
        // Part of a base that cannot be written to.
        Err(_) => Ok(false),
    }
}

fn refusal(task: &Task, leaks: &[Leak], is_cut: bool, on_finding: OnFinding) -> Fault {
    let mut what = String::from("the seal does not hold");
    for leak in leaks.iter().take(NAMED) {
        let _ = write!(what, "; {leak}");
    }
    if leaks.len() > NAMED {
        let _ = write!(what, "; and {} more", leaks.len() - NAMED);
    }
    if is_cut {
        what.push_str("; and more than can be reported");
    }
    let mend = match on_finding {
        OnFinding::Refuse => {
            "remove it in the environment's set-up, list it under `hidden`, or set \
             seal.on_finding = \"remove\""
        }
        OnFinding::Remove => {
            "this cannot be removed from a room: remove it in the environment's set-up, or from the \
             host or the image"
        }
    };
    Fault::new(Layer::Seat, what).context(&task.id).mend(mend)
}
