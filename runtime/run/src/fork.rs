//! Copies a trial's state after a step to a new trial in another run, where `resume` continues it.
//! Proctor treats a fork like a trial that belongs to another arm and was interrupted after that
//! step.

use std::collections::BTreeSet;

use proctor_record::{Blobs, Journal, RecordError, Remedy, RunDir, Tree, TrialDir, read_journal};
use proctor_types::{
    Arm, EVENT_VERSION, Envelope, Event, Fault, FaultCause, FaultLayer, ForkOrigin, OutsideState,
    Spending, TrialId, remove_discarded_events,
};

use crate::{
    error::record_fault,
    outside,
    resume_point::{spending_after, unrestorable_reason},
};

/// The state of a trial after one of its steps.
#[derive(Debug)]
pub struct ForkPoint {
    /// Events up to the step's snapshot.
    events: Vec<Envelope>,
    base_tree: String,
    tree: String,
    /// The state outside the work directory, if it was recorded.
    outside_state: Option<String>,
    /// Whether the agent submitted its work in this step.
    pub is_submitted: bool,
    step: u64,
    blobs: Blobs,
    pack_path: std::path::PathBuf,
}

impl ForkPoint {
    /// Reads a trial up to a step. The inner `Err` is a usage error that says why the fork point
    /// does not exist.
    ///
    /// # Errors
    /// Fails if the journal is incomplete.
    pub fn read(run: &RunDir, id: &TrialId, step: u64) -> Result<Result<Self, String>, Fault> {
        let dir = run.trial_dir(id);
        if !dir.trajectory_path().exists() {
            return Ok(Err("it has not started".into()));
        }
        let reading = read_journal(dir.trajectory_path()).map_err(record_fault)?;
        if let Some(lost) = reading.first_lost_line() {
            let fault = Fault::new(FaultLayer::Record, lost.to_string());
            return Err(fault.hint(Remedy::RestoreFromCopy.hint()).into_permanent());
        }
        let (mut events, mut base, mut tree, mut steps) = (Vec::new(), None, None, 0);
        let mut outside = None;
        for envelope in remove_discarded_events(reading.events) {
            match &envelope.event {
                Event::SetupFinished { base_snapshot, .. } => base = Some(base_snapshot.clone()),
                Event::ModelAnswered { .. } => steps += 1,
                Event::SnapshotTaken { snapshot, outside: state, .. }
                    if steps == step && base.is_some() && tree.is_none() =>
                {
                    tree = Some(snapshot.clone());
                    outside = recorded_digest(state.as_ref()).cloned();
                    events.push(envelope);
                    continue;
                }
                _ => {}
            }
            if tree.is_none() {
                events.push(envelope);
            }
        }
        let (Some(base), Some(tree)) = (base, tree) else {
            return Ok(Err(match steps {
                0 => "it has no steps".to_owned(),
                _ if step > steps => format!("its last step is {steps}"),
                _ => format!("the record of step {step} is incomplete"),
            }));
        };
        let blobs = run.trial_blobs(&dir);
        if let Some(why) = unrestorable_reason(&blobs, &base, &tree).map_err(record_fault)? {
            return Ok(Err(why));
        }
        let is_submission = |one: &Envelope| {
            matches!(&one.event, Event::ToolReturned { name, malformed: false, .. } if name == "submit")
                && one.step == step
        };
        let submitted = events.iter().any(is_submission);
        if let Some(digest) = &outside
            && let Err(error) = outside::check_blobs(&blobs, digest)
        {
            return match error {
                RecordError::Corrupt { .. } => Ok(Err(error.to_string())),
                error => Err(record_fault(error)),
            };
        }
        Ok(Ok(Self {
            events,
            base_tree: base,
            tree,
            outside_state: outside,
            is_submitted: submitted,
            step,
            blobs,
            pack_path: dir.pack_path(),
        }))
    }

    /// Returns the hash of the tree's manifest.
    pub fn tree_hash(&self) -> &str {
        &self.tree
    }

    /// Whether the recorded conversation contains a hint from an earlier fork. The arm's prompts do
    /// not contain this hint.
    pub fn has_hint(&self) -> bool {
        let hinted = |one: &Envelope| matches!(&one.event, Event::TrialForked { from, .. } if from.hint.is_some());
        self.events.iter().any(hinted)
    }

    fn spending(&self) -> Spending {
        spending_after(&self.events)
    }

    /// Writes the beginning of a trial in another run: the events up to the fork point and every
    /// blob that they reference. Unless `is_same_model` is set, vendor-specific fields are removed
    /// from the responses, because another endpoint would reject them.
    ///
    /// # Errors
    /// Fails if the record is incomplete or cannot be written.
    pub fn start_trial(
        &self,
        run: &RunDir,
        id: &TrialId,
        arm: &Arm,
        origin: &ForkOrigin,
        is_same_model: bool,
    ) -> Result<(), Fault> {
        let dir = run.create_trial_dir(id).map_err(record_fault)?;
        if self.pack_path.exists() {
            proctor_files::copy_regular_file(&self.pack_path, &dir.pack_path()).map_err(
                |error| {
                    Fault::new(
                        FaultLayer::Record,
                        format!("{}: {error}", dir.pack_path().display()),
                    )
                },
            )?;
        }
        let events = self.events_for_fork(id, arm, origin, is_same_model);
        self.copy_blobs(&run.trial_blobs(&dir), &events).map_err(record_fault)?;
        Journal::create_with_events(dir.trajectory_path(), 1, events).map_err(record_fault)
    }

    fn events_for_fork(
        &self,
        id: &TrialId,
        arm: &Arm,
        origin: &ForkOrigin,
        is_same_model: bool,
    ) -> Vec<Envelope> {
        let around = |envelope: Option<&Envelope>, step: u64, event: Event| Envelope {
            v: EVENT_VERSION,
            seq: 0,
            try_number: 1,
            step,
            t_mono: envelope.map_or(0.0, |one| one.t_mono),
            t_wall: envelope.map_or(0.0, |one| one.t_wall),
            event,
        };
        let mut along = vec![around(self.events.first(), 0, Event::trial_started(id))];
        for envelope in &self.events {
            let mut envelope = envelope.clone();
            match &mut envelope.event {
                Event::TrialStarted { .. } | Event::TrialForked { .. } => continue,
                Event::SetupFinished { backend, environment, .. } => {
                    *backend = arm.sandbox.kind.to_string();
                    *environment = None;
                }
                // `stands_to` names the last earlier event that counts. The copy contains no
                // discarded events and has new numbers, so make all earlier events count.
                Event::TrialResumed { stands_to, .. } => *stands_to = u64::MAX,
                Event::ModelAnswered { answer } if !is_same_model => answer.extra.clear(),
                _ => {}
            }
            let setup = matches!(envelope.event, Event::SetupFinished { .. });
            along.push(envelope);
            if setup && !origin.conversation {
                break;
            }
        }
        let (from, snapshot) = (origin.clone(), self.tree.clone());
        let outside = self.outside_state.clone();
        let forked = Event::TrialForked { from, snapshot, spent: self.spending(), outside };
        let step = if origin.conversation { self.step } else { 0 };
        along.push(around(along.last(), step, forked));
        along
    }

    fn copy_blobs(&self, target: &Blobs, events: &[Envelope]) -> Result<(), RecordError> {
        let mut named: BTreeSet<String> = BTreeSet::new();
        let mut trees = BTreeSet::from([self.base_tree.clone(), self.tree.clone()]);
        let mut states: BTreeSet<String> = self.outside_state.iter().cloned().collect();
        for envelope in events {
            match &envelope.event {
                Event::SnapshotTaken { snapshot, outside, .. } => {
                    trees.insert(snapshot.clone());
                    states.extend(recorded_digest(outside.as_ref()).cloned());
                }
                Event::ModelAttempted { request, body, .. } => {
                    named.extend(request.iter().chain(body).cloned());
                }
                Event::UrlRequested(request) => named.extend(request.kept.clone()),
                Event::ToolReturned { full, edited, .. } => {
                    named.extend(full.clone());
                    named.extend(edited.iter().flat_map(|edit| edit.before.clone()));
                    named.extend(edited.iter().flat_map(|edit| edit.after.clone()));
                }
                _ => {}
            }
        }
        for tree in &trees {
            let content = Tree::load(&self.blobs, tree)?;
            named.extend(content.entries.into_values().filter_map(|entry| match entry.kind {
                proctor_sandbox_api::wire::EntryKind::File => entry.hash,
                _ => None,
            }));
            // Copy only trees that are stored in full. Trees stored as deltas are in the pack,
            // which was copied.
            if let Ok(bytes) = self.blobs.get(tree)
                && !target.contains(tree)
            {
                target.put_shared(&bytes)?;
            }
        }
        for state in states {
            let layer = outside::load_layer(&self.blobs, &state)?;
            named.extend(layer.changed.into_iter().filter_map(|one| match one.entry.kind {
                proctor_sandbox_api::wire::EntryKind::File => one.entry.hash,
                _ => None,
            }));
            named.insert(state);
        }
        for hash in named.iter().filter(|hash| !target.contains(hash)) {
            target.put_shared(&self.blobs.get(hash)?)?;
        }
        Ok(())
    }
}

fn recorded_digest(state: Option<&OutsideState>) -> Option<&String> {
    match state {
        Some(OutsideState::Kept(digest)) => Some(digest),
        _ => None,
    }
}

/// Prepares another try of a forked trial, which starts at the fork point. Copies the events up to
/// that point from the previous try, whose record was set aside as evidence.
pub(crate) fn prepare_restart(dir: &TrialDir, try_number: u32) -> Result<(), Fault> {
    let before = TrialDir::new(dir.tries_dir().join(try_number.saturating_sub(1).to_string()));
    let mut events = Vec::new();
    for envelope in read_journal(before.trajectory_path()).map_err(record_fault)?.events {
        let forked = matches!(envelope.event, Event::TrialForked { .. });
        events.push(envelope);
        if forked {
            if before.pack_path().exists() {
                proctor_files::copy_regular_file(&before.pack_path(), &dir.pack_path()).map_err(
                    |error| {
                        Fault::new(
                            FaultLayer::Record,
                            format!("{}: {error}", dir.pack_path().display()),
                        )
                    },
                )?;
            }
            return Journal::create_with_events(dir.trajectory_path(), try_number, events)
                .map_err(record_fault);
        }
    }
    let what = format!("{}: the fork point is missing", before.trajectory_path().display());
    Err(Fault::new(FaultLayer::Record, what)
        .cause(FaultCause::Invalid)
        .hint("fork the trial again"))
}
