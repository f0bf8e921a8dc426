//! State that all trials of a run share.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use proctor_egress::Egress;
use proctor_gateway::Gateway;
use proctor_grade::GradeOptions;
use proctor_record::RunDir;
use proctor_sandbox_api::Backend;
use proctor_scaffold_api::Scaffold;
use proctor_types::{Arm, Fault, FaultCause, FaultLayer, FlakePolicy, SandboxKind};
use tokio::sync::mpsc::UnboundedSender;

use crate::{
    CancelSignal, Capacity, ComparisonLimit, Environments, FaultPolicy, FrozenTests, Halts,
    LeakChecks, OutsideLimits, Progress, SharedMeters, VerdictCache,
};

/// State that all trials of a run share. Only an [`Execution`](crate::Execution) creates a context.
pub struct RunContext {
    pub(crate) run: Arc<RunDir>,
    pub(crate) backends: BTreeMap<SandboxKind, Arc<dyn Backend>>,
    /// Scaffolds by scaffold name. A scaffold that belongs to a single arm, for example because of
    /// user-defined prompts, has the arm's ID as its key.
    pub(crate) scaffolds: BTreeMap<String, Arc<dyn Scaffold>>,
    pub(crate) environments: Environments,
    pub(crate) leak_checks: LeakChecks,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) egress: Egress,
    pub(crate) shared_meters: SharedMeters,
    pub(crate) grade_options: GradeOptions,
    /// The CPUs and memory that all grading sandboxes may use together. This limit applies in
    /// addition to the run's `jobs`.
    pub(crate) capacity: Capacity,
    /// Limits concurrent patch computations.
    pub(crate) comparison_limit: ComparisonLimit,
    pub(crate) frozen_tests: FrozenTests,
    /// Cache of verdicts. If `None`, every patch is graded again.
    pub(crate) verdicts: Option<VerdictCache>,
    /// Tests whose results are unreliable, keyed by the SHA-256 of their task. `flake_policy` says
    /// how grading treats them.
    pub(crate) unreliable_tests: BTreeMap<String, BTreeSet<String>>,
    pub(crate) flake_policy: FlakePolicy,
    /// Whether verdicts include the policy `wide`.
    pub(crate) includes_wide: bool,
    /// Whether a Harbor verifier runs in the agent's own container, as in Harbor itself.
    pub(crate) verifies_in_place: bool,
    /// Limits on the state outside the work directory that is kept for resumable trials.
    pub(crate) outside_limits: OutsideLimits,
    /// The fault table.
    pub(crate) fault_policy: FaultPolicy,
    /// Scopes in which no further trials start because of faults.
    pub(crate) halts: Halts,
    /// The trajectories that the `replay` scaffold replays, by arm name.
    pub(crate) replay_trajectories: BTreeMap<String, PathBuf>,
    pub(crate) progress: UnboundedSender<Progress>,
    pub(crate) cancel: CancelSignal,
}

impl RunContext {
    pub(crate) fn backend(&self, kind: SandboxKind) -> Result<&Arc<dyn Backend>, Fault> {
        self.backends.get(&kind).ok_or_else(|| {
            Fault::new(FaultLayer::Sandbox, format!("the {kind} back end is not available"))
                .cause(FaultCause::Invalid)
                .hint("run `proctor doctor` to see why")
        })
    }

    pub(crate) fn scaffold(&self, arm: &Arm) -> Result<&Arc<dyn Scaffold>, Fault> {
        let name = &arm.scaffold;
        self.scaffolds.get(arm.id.as_str()).or_else(|| self.scaffolds.get(name)).ok_or_else(|| {
            Fault::new(FaultLayer::Setup, format!("unknown scaffold {name}"))
                .cause(FaultCause::Invalid)
        })
    }

    /// Sends a progress event. Does nothing if the receiver was dropped.
    pub(crate) fn send_progress(&self, progress: Progress) {
        let _ = self.progress.send(progress);
    }
}
