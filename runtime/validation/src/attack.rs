//! Runs the attack pack on each task of a validation. Attacks are graded like gold.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use proctor_attacks::{Attack, AttackPatch, Target, generate_patch, pack_digest};
use proctor_patch::SideContent;
use proctor_record::{RecordError, RunDir};
use proctor_run::{PlannedTask, TaskPrediction, record_prediction, trial_start_tree};
use proctor_types::{
    Arm, ArmId, AttackCertificate, AttackOutcome, AttackResult, AttackedTask, CertifiedAttack,
    Fault, SandboxSpec, Selection, TrialId, Verdict, sha256_hex,
};
use serde_json::json;

use crate::ValidationError;

/// The generated attacks by task index. Each entry has the arm's index and the patch, in arm order.
type AttackPatches = BTreeMap<usize, Vec<(usize, AttackPatch)>>;

/// The attacks on a validation's tasks, with an arm for each attack and a patch for each task.
pub struct AttackRun<'a> {
    tasks: &'a [PlannedTask],
    attacks: Vec<CertifiedAttack>,
    arms: Vec<Arm>,
    patches: AttackPatches,
    pack_digest: String,
}

impl<'a> AttackRun<'a> {
    /// Creates the patches of the attacks in `pack` and of the tasks' own cheats. `validation_dir`
    /// is the directory of the run with the gold and noop arms.
    ///
    /// # Errors
    /// The run cannot be read or has no gold or noop arm, or an attack cannot be created.
    pub fn new(
        pack: &[&'static Attack],
        validation_dir: &Path,
        tasks: &'a [PlannedTask],
        sandbox: &SandboxSpec,
    ) -> Result<Self, ValidationError> {
        let names = list_certified_attacks(pack, tasks);
        let digest = pack_digest();
        let arm = |one: &CertifiedAttack| {
            let settings = json!({ "attack": one.name, "pack": digest });
            Arm::for_patches(&one.name, sandbox, settings)
        };
        let arms = names.iter().map(arm).collect();
        let made = create_patches(pack, validation_dir, tasks, &names)?;
        Ok(Self { tasks, attacks: names, arms, patches: made, pack_digest: digest })
    }

    /// Returns the arms, one per attack.
    pub fn arms(&self) -> &[Arm] {
        &self.arms
    }

    /// Returns the number of patches to grade.
    pub fn patch_count(&self) -> usize {
        self.patches.values().flatten().filter(|(_, made)| is_patch(made)).count()
    }

    fn trial_id(&self, task_index: usize, arm_index: usize) -> TrialId {
        TrialId {
            task: self.tasks[task_index].task.id.clone(),
            arm: self.arms[arm_index].id.clone(),
            attempt: 1,
        }
    }

    /// Records the patches as trials of a run with these arms. Returns the ids of the trials.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn record_patches(&self, run: &RunDir) -> Result<BTreeSet<TrialId>, Fault> {
        let mut only = BTreeSet::new();
        for (task, made) in &self.patches {
            for (arm, made) in made {
                if let AttackPatch::Patch(patch) = made {
                    record_prediction(
                        run,
                        &self.trial_id(*task, *arm),
                        TaskPrediction::Patch(patch),
                    )?;
                    only.insert(self.trial_id(*task, *arm));
                }
            }
        }
        Ok(only)
    }

    /// Reads the results from the graded run.
    ///
    /// # Errors
    /// The run cannot be read.
    pub fn read_results(
        self,
        run_dir: &Path,
        sample: Option<Selection>,
    ) -> Result<AttackCertificate, RecordError> {
        let run = RunDir::open_read_only(run_dir)?;
        let mut tasks = Vec::new();
        for (index, planned) in self.tasks.iter().enumerate() {
            let mut environment = None;
            let mut results = BTreeMap::new();
            for (arm, made) in self.patches.get(&index).into_iter().flatten() {
                let result = match made {
                    AttackPatch::NotApplicable(why) => AttackResult {
                        not_applicable: Some(why.clone()),
                        ..AttackResult::default()
                    },
                    AttackPatch::Patch(_) => {
                        match run.check_trial(&self.trial_id(index, *arm)).verdict {
                            Some(verdict) => {
                                environment = environment.or_else(|| verdict.environment.clone());
                                result_from_verdict(&verdict)
                            }
                            None => AttackResult {
                                no_verdict: Some("grading failed".into()),
                                ..AttackResult::default()
                            },
                        }
                    }
                };
                results.insert(self.attacks[*arm].name.clone(), result);
            }
            let task = planned.task.id.clone();
            let digest = planned.task.digest();
            tasks.push(AttackedTask { task, digest, environment, attacks: results });
        }
        Ok(AttackCertificate {
            pack: self.pack_digest,
            dataset: dataset_digest(self.tasks),
            revisions: dataset_revisions(self.tasks),
            sample,
            attacks: self.attacks,
            tasks,
        })
    }
}

/// Returns the pack's attacks, followed by the tasks' own cheats.
fn list_certified_attacks(pack: &[&Attack], tasks: &[PlannedTask]) -> Vec<CertifiedAttack> {
    let of_pack =
        pack.iter().map(|one| CertifiedAttack { name: one.name.clone(), class: one.class });
    let mut own: Vec<String> = Vec::new();
    for cheat in tasks.iter().flat_map(|planned| &planned.task.cheats) {
        let name = cheat.attack_name();
        if !own.contains(&name) {
            own.push(name);
        }
    }
    of_pack.chain(own.into_iter().map(|name| CertifiedAttack { name, class: None })).collect()
}

/// Creates all patches from the initial work directory of the noop trials.
fn create_patches(
    pack: &[&'static Attack],
    validation_dir: &Path,
    tasks: &[PlannedTask],
    attacks: &[CertifiedAttack],
) -> Result<AttackPatches, ValidationError> {
    let run = RunDir::open_read_only(validation_dir)?;
    let record = run.read_run()?;
    let arm = |name: &str| record.arms.iter().find(|arm| arm.name == name).map(|arm| &arm.id);
    let (Some(gold), Some(noop)) = (arm("gold"), arm("noop")) else {
        return Err(ValidationError::NoControls);
    };
    let mut all = AttackPatches::new();
    for (index, planned) in tasks.iter().enumerate() {
        let task = &planned.task;
        let id = |arm: &ArmId| TrialId { task: task.id.clone(), arm: arm.clone(), attempt: 1 };
        let resolves = run.check_trial(&id(gold)).verdict.is_some_and(|verdict| verdict.resolved);
        let mut made = Vec::new();
        if resolves {
            let tree = trial_start_tree(&run, &id(noop))?;
            let start = |path: &str| -> Result<SideContent, Fault> {
                Ok(tree.mode(path).zip(tree.read(path)?))
            };
            let target = Target::from_task(task, &start)?;
            for (arm, attack) in pack.iter().enumerate() {
                made.push((arm, generate_patch(attack, &target, &start)?));
            }
        } else {
            let why = "gold does not resolve the task";
            made.extend(
                (0..pack.len()).map(|arm| (arm, AttackPatch::NotApplicable(why.to_owned()))),
            );
        }
        for cheat in &task.cheats {
            let arm = attacks.iter().position(|one| one.name == cheat.attack_name());
            made.extend(arm.map(|arm| (arm, AttackPatch::Patch(cheat.patch.clone().into_bytes()))));
        }
        all.insert(index, made);
    }
    Ok(all)
}

fn is_patch(result: &AttackPatch) -> bool {
    matches!(result, AttackPatch::Patch(_))
}

fn result_from_verdict(verdict: &Verdict) -> AttackResult {
    let outcome = |resolved| AttackOutcome::from_verdict(resolved, verdict.integrity);
    let policies: BTreeMap<_, _> = verdict
        .policies
        .iter()
        .map(|(name, policy)| (name.clone(), outcome(policy.resolved)))
        .collect();
    let seen = policies.values().any(|outcome| *outcome == AttackOutcome::Seen);
    let kinds = verdict.evidence.iter().filter(|_| seen).map(|evidence| evidence.kind.clone());
    let classes = if seen { verdict.evidence_classes() } else { BTreeSet::new() };
    AttackResult { seen_as: kinds.collect(), classes, policies, ..AttackResult::default() }
}

/// Returns a digest of the tasks' content.
fn dataset_digest(tasks: &[PlannedTask]) -> String {
    let digests: BTreeSet<String> = tasks.iter().map(|planned| planned.task.digest()).collect();
    sha256_hex(digests.into_iter().collect::<Vec<_>>().join("\n").as_bytes())
}

fn dataset_revisions(tasks: &[PlannedTask]) -> BTreeSet<String> {
    let benchmarks = tasks.iter().filter_map(|planned| planned.task.benchmark.as_ref());
    benchmarks.filter_map(|one| Some(format!("{}@{}", one.name, one.revision.as_ref()?))).collect()
}
