//! Halts: conditions under which every further trial would fail. The remaining trials are not
//! started and wait for a `resume`.
//!
//! Without halts, every trial would use up its tries only to find that the disk is full or the
//! engine is gone. Models are halted by the gateway, because it sees each request.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use proctor_types::{Arm, Fault, SandboxKind, TrialId};

use crate::{FaultPolicy, fault_policy::ScopeKind};

/// A group of trials that are halted together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum HaltScope {
    Task(SandboxKind, String),
    Builds(SandboxKind),
    BackEnd(SandboxKind),
    Run,
}

/// Where a trial runs, which determines its scopes.
#[derive(Debug, Clone)]
pub(crate) struct TrialLocation {
    pub(crate) back_end: SandboxKind,
    task: String,
    /// The trial's id as text.
    trial: String,
}

impl TrialLocation {
    pub(crate) fn new(arm: &Arm, id: &TrialId) -> Self {
        Self { back_end: arm.sandbox.kind, task: id.task.to_string(), trial: id.to_string() }
    }

    fn scope(&self, kind: ScopeKind) -> HaltScope {
        match kind {
            ScopeKind::Task => HaltScope::Task(self.back_end, self.task.clone()),
            ScopeKind::Builds => HaltScope::Builds(self.back_end),
            ScopeKind::BackEnd => HaltScope::BackEnd(self.back_end),
            ScopeKind::Run => HaltScope::Run,
        }
    }
}

/// The fault that halted a scope. No further trials start in a halted scope.
#[derive(Debug, Clone)]
pub struct Halt {
    pub fault: Fault,
    /// Number of trials that were not started because of the halt.
    pub held_back_trials: usize,
}

/// The halts of a run, shared by all its trials. A `resume` starts without halts.
#[derive(Debug, Default)]
pub struct Halts(Mutex<ScopeHalts>);

#[derive(Debug, Default)]
struct ScopeHalts {
    halts: BTreeMap<HaltScope, Halt>,
    /// For each scope, the trials that faulted since the last success. For `Builds`, tasks instead
    /// of trials.
    faulted_trials: BTreeMap<HaltScope, BTreeSet<String>>,
}

impl Halts {
    fn lock(&self) -> MutexGuard<'_, ScopeHalts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a fault that ended a trial. Halts each scope that reaches its threshold.
    pub(crate) fn count_fault(
        &self,
        policy: &FaultPolicy,
        location: &TrialLocation,
        fault: &Fault,
    ) {
        let mut state = self.lock();
        for counts in policy.halt_thresholds(fault) {
            let scope = location.scope(counts.scope);
            // Count failed builds by task. One bad environment may cause many trials to fail, but
            // says nothing about other environments.
            let witness =
                if counts.scope == ScopeKind::Builds { &location.task } else { &location.trial };
            let met = state.faulted_trials.entry(scope.clone()).or_default();
            met.insert(witness.to_owned());
            if met.len() >= counts.after {
                let halt = Halt { fault: fault.clone(), held_back_trials: 0 };
                state.halts.entry(scope).or_insert(halt);
            }
        }
    }

    /// Clears the fault count, because an operation in this scope succeeded.
    pub(crate) fn clear_faults(&self, location: &TrialLocation, kind: ScopeKind) {
        self.lock().faulted_trials.remove(&location.scope(kind));
    }

    /// Returns why a trial must not be started or retried. `is_built` says whether the trial's
    /// environment is already built, in which case halted builds do not affect the trial.
    pub(crate) fn halting_fault(&self, location: &TrialLocation, is_built: bool) -> Option<Fault> {
        self.find_halt(location, is_built).map(|(_, fault)| fault)
    }

    fn find_halt(&self, location: &TrialLocation, is_built: bool) -> Option<(HaltScope, Fault)> {
        let kinds = [ScopeKind::Run, ScopeKind::BackEnd, ScopeKind::Builds, ScopeKind::Task];
        let state = self.lock();
        kinds.into_iter().filter(|kind| !is_built || *kind != ScopeKind::Builds).find_map(|kind| {
            let scope = location.scope(kind);
            let fault = state.halts.get(&scope)?.fault.clone();
            Some((scope, fault))
        })
    }

    /// Like `halting_fault`, but returns only whether there is a halt, and counts the trial as held
    /// back.
    pub(crate) fn hold_back_if_halted(&self, location: &TrialLocation, is_built: bool) -> bool {
        let Some((scope, _)) = self.find_halt(location, is_built) else { return false };
        if let Some(halt) = self.lock().halts.get_mut(&scope) {
            halt.held_back_trials += 1;
        }
        true
    }

    /// Returns every halt, ordered from the narrowest to the widest scope.
    pub fn all_halts(&self) -> Vec<Halt> {
        self.lock().halts.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use proctor_types::{FaultCause, FaultLayer};

    use super::*;

    const NATIVE: SandboxKind = SandboxKind::Native;

    fn location(back_end: SandboxKind, task: &str, trial: &str) -> TrialLocation {
        TrialLocation { back_end, task: task.to_owned(), trial: trial.to_owned() }
    }

    fn fault(layer: FaultLayer, cause: FaultCause) -> Fault {
        Fault::new(layer, "it").cause(cause)
    }

    #[test]
    fn consecutive_faults_halt_only_their_scope() {
        let (policy, halts) = (FaultPolicy::shipped().unwrap(), Halts::default());
        let broken = fault(FaultLayer::Sandbox, FaultCause::Other);
        let affected = location(NATIVE, "t", "1");
        halts.count_fault(&policy, &affected, &broken);
        halts.count_fault(&policy, &affected, &broken);
        halts.count_fault(&policy, &location(NATIVE, "t", "2"), &broken);
        assert!(halts.halting_fault(&affected, true).is_none(), "a trial counts once");
        halts.clear_faults(&affected, ScopeKind::BackEnd);
        for trial in ["3", "4"] {
            halts.count_fault(&policy, &location(NATIVE, "t", trial), &broken);
        }
        assert!(halts.halting_fault(&affected, true).is_none(), "the count restarted");
        halts.count_fault(&policy, &location(NATIVE, "u", "5"), &broken);
        assert_eq!(halts.halting_fault(&affected, true), Some(broken));
        assert!(halts.halting_fault(&location(SandboxKind::Docker, "t", "6"), true).is_none());
        assert!(
            halts.hold_back_if_halted(&affected, true)
                && halts.hold_back_if_halted(&affected, true)
        );
        assert_eq!(
            halts.all_halts().iter().map(|halt| halt.held_back_trials).collect::<Vec<_>>(),
            [2]
        );
    }

    #[test]
    fn failed_builds_of_several_tasks_halt_only_unbuilt_environments() {
        let (policy, halts) = (FaultPolicy::shipped().unwrap(), Halts::default());
        let line = fault(FaultLayer::Environment, FaultCause::SetupLine);
        for trial in ["1", "2", "3", "4"] {
            halts.count_fault(&policy, &location(NATIVE, "bad", trial), &line);
        }
        let other = location(NATIVE, "good", "5");
        assert!(
            halts.halting_fault(&location(NATIVE, "bad", "6"), false).is_some(),
            "the task itself waits"
        );
        assert!(
            halts.halting_fault(&other, false).is_none(),
            "one bad task does not halt all builds"
        );
        for task in ["b", "c"] {
            halts.count_fault(&policy, &location(NATIVE, task, task), &line);
        }
        assert!(
            halts.halting_fault(&other, false).is_some()
                && halts.halting_fault(&other, true).is_none()
        );
    }

    #[test]
    fn trial_specific_faults_halt_nothing() {
        let (policy, halts) = (FaultPolicy::shipped().unwrap(), Halts::default());
        for trial in 0..9 {
            let trial = trial.to_string();
            for (layer, cause) in [
                (FaultLayer::Sandbox, FaultCause::Gone),
                (FaultLayer::Sandbox, FaultCause::Cancelled),
                (FaultLayer::Model, FaultCause::Outage),
                (FaultLayer::Grade, FaultCause::Other),
            ] {
                halts.count_fault(&policy, &location(NATIVE, "t", &trial), &fault(layer, cause));
            }
        }
        assert!(halts.all_halts().is_empty());
    }
}
