//! What all trials of a run share.

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
use proctor_types::{Arm, Cause, Fault, FlakePolicy, Layer, SandboxKind};
use tokio::sync::mpsc::UnboundedSender;

use crate::{
    Cancel, Capacity, Comparing, Environments, FaultPolicy, FrozenTests, Halts, LeakChecks,
    OutsideLimits, Progress, SharedMeters, Verdicts,
};

/// Shared by all trials of a run. The command line builds it once.
pub struct RunContext {
    pub run: Arc<RunDir>,
    pub backends: BTreeMap<SandboxKind, Arc<dyn Backend>>,
    /// Keyed by arm id if the arm has its own scaffold (its prompts may be a user's), else by
    /// scaffold name.
    pub scaffolds: BTreeMap<String, Arc<dyn Scaffold>>,
    pub environments: Environments,
    pub leak_checks: LeakChecks,
    pub gateway: Arc<Gateway>,
    pub egress: Egress,
    pub shared: SharedMeters,
    pub grading: GradeOptions,
    /// Used by gradings, in addition to the run's `jobs`.
    pub capacity: Capacity,
    /// Computes patches.
    pub comparing: Comparing,
    pub frozen: FrozenTests,
    /// Absent: every patch is graded again.
    pub verdicts: Option<Verdicts>,
    /// Tests that grading cannot rely on, keyed by the SHA-256 of their task, and how grading
    /// treats them.
    pub unreliable: BTreeMap<String, BTreeSet<String>>,
    pub flaky: FlakePolicy,
    /// Whether verdicts include the policy `wide`.
    pub wide: bool,
    /// Whether a Harbor verifier runs in the agent's own container, as Harbor does.
    pub harbor_shared: bool,
    /// Limits on the state outside the work directory that resumable trials keep.
    pub outside: OutsideLimits,
    /// The fault table.
    pub faults: FaultPolicy,
    /// Scopes that faults have halted.
    pub halts: Halts,
    /// For the `replay` scaffold: trajectories by arm name.
    pub replay: BTreeMap<String, PathBuf>,
    pub progress: UnboundedSender<Progress>,
    pub cancel: Cancel,
}

impl RunContext {
    pub fn backend(&self, kind: SandboxKind) -> Result<&Arc<dyn Backend>, Fault> {
        self.backends.get(&kind).ok_or_else(|| {
            Fault::new(Layer::Sandbox, format!("the {kind} back end is not available"))
                .cause(Cause::Invalid)
                .hint("run `proctor doctor` to see why")
        })
    }

    pub fn scaffold(&self, arm: &Arm) -> Result<&Arc<dyn Scaffold>, Fault> {
        let name = &arm.scaffold;
        self.scaffolds.get(arm.id.as_str()).or_else(|| self.scaffolds.get(name)).ok_or_else(|| {
            Fault::new(Layer::Setup, format!("unknown scaffold {name}")).cause(Cause::Invalid)
        })
    }

    /// Sends progress to the watcher, if there still is one.
    pub fn tell(&self, progress: Progress) {
        let _ = self.progress.send(progress);
    }
}
