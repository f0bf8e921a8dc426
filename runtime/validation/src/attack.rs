//! Runs the attack pack on each task of a validation. Attacks are graded like gold.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use proctor_attacks::{Attack, Made, Target, digest, make};
use proctor_patch::SideContent;
use proctor_record::{RecordError, RunDir};
use proctor_run::{PlannedTask, Taken, record_prediction, start_of};
use proctor_types::{
    Arm, ArmId, AttackCertificate, AttackOutcome, AttackResult, AttackedTask, CertifiedAttack,
    Fault, SandboxSpec, Selection, TrialId, Verdict, sha256_hex,
};
use serde_json::json;

use crate::ValidationError;

/// The results of creating attacks: by task, the arm and the attack, in arm order.
type AttackPatches = BTreeMap<usize, Vec<(usize, Made)>>;

/// The attacks on the tasks of a validation, with an arm for each attack and a patch for each task.
pub struct AttackRun<'a> {
    tasks: &'a [PlannedTask],
    names: Vec<CertifiedAttack>,
    arms: Vec<Arm>,
    made: AttackPatches,
    pack: String,
}

impl<'a> AttackRun<'a> {
    /// Creates the patches of the attacks in `pack` and of the tasks' own cheats. `validated` is the run of gold and
    /// noop.
    ///
    /// # Errors
    /// The run cannot be read or has no gold or noop arm, or an attack cannot be created.
    pub fn new(
        pack: &[&'static Attack],
        validated: &Path,
        tasks: &'a [PlannedTask],
        sandbox: &SandboxSpec,
    ) -> Result<Self, ValidationError> {
        let names = names(pack, tasks);
        let digest = digest();
        let arm = |one: &CertifiedAttack| {
            let settings = json!({ "attack": one.name, "pack": digest });
            Arm::of_patches(&one.name, sandbox, settings)
        };
        let arms = names.iter().map(arm).collect();
        let made = make_all(pack, validated, tasks, &names)?;
        Ok(Self { tasks, names, arms, made, pack: digest })
    }

    /// Returns the arms, one per attack.
    pub fn arms(&self) -> &[Arm] {
        &self.arms
    }

    /// Returns the number of patches to grade.
    pub fn patches(&self) -> usize {
        self.made.values().flatten().filter(|(_, made)| is_patch(made)).count()
    }

    fn trial(&self, task: usize, arm: usize) -> TrialId {
        TrialId {
            task: self.tasks[task].task.id.clone(),
            arm: self.arms[arm].id.clone(),
            attempt: 1,
        }
    }

    /// Records the patches as trials of a run with these arms. Returns the ids of the trials.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn record(&self, run: &RunDir) -> Result<BTreeSet<TrialId>, Fault> {
        let mut only = BTreeSet::new();
        for (task, made) in &self.made {
            for (arm, made) in made {
                if let Made::Patch(patch) = made {
                    record_prediction(run, &self.trial(*task, *arm), Taken::Patch(patch))?;
                    only.insert(self.trial(*task, *arm));
                }
            }
        }
        Ok(only)
    }

    /// Reads the results from the graded run.
    ///
    /// # Errors
    /// The run cannot be read.
    pub fn results(
        self,
        out: &Path,
        sample: Option<Selection>,
    ) -> Result<AttackCertificate, RecordError> {
        let run = RunDir::view(out)?;
        let mut tasks = Vec::new();
        for (index, planned) in self.tasks.iter().enumerate() {
            let mut environment = None;
            let mut results = BTreeMap::new();
            for (arm, made) in self.made.get(&index).into_iter().flatten() {
                let result = match made {
                    Made::NotApplicable(why) => AttackResult {
                        not_applicable: Some(why.clone()),
                        ..AttackResult::default()
                    },
                    Made::Patch(_) => match run.check(&self.trial(index, *arm)).verdict {
                        Some(verdict) => {
                            environment = environment.or_else(|| verdict.environment.clone());
                            result_of(&verdict)
                        }
                        None => AttackResult {
                            no_verdict: Some("the grading failed".into()),
                            ..AttackResult::default()
                        },
                    },
                };
                results.insert(self.names[*arm].name.clone(), result);
            }
            let task = planned.task.id.clone();
            let digest = planned.task.digest();
            tasks.push(AttackedTask { task, digest, environment, attacks: results });
        }
        Ok(AttackCertificate {
            pack: self.pack,
            dataset: dataset(self.tasks),
            revisions: revisions(self.tasks),
            sample,
            attacks: self.names,
            tasks,
        })
    }
}

/// Returns the pack's attacks, followed by the tasks' own cheats.
fn names(pack: &[&Attack], tasks: &[PlannedTask]) -> Vec<CertifiedAttack> {
    let of_pack =
        pack.iter().map(|one| CertifiedAttack { name: one.name.clone(), class: one.class });
    let mut own: Vec<String> = Vec::new();
    for cheat in tasks.iter().flat_map(|planned| &planned.task.cheats) {
        let name = cheat.attack();
        if !own.contains(&name) {
            own.push(name);
        }
    }
    of_pack.chain(own.into_iter().map(|name| CertifiedAttack { name, class: None })).collect()
}

/// Creates all patches from the initial work directory of the noop trials.
fn make_all(
    pack: &[&'static Attack],
    validated: &Path,
    tasks: &[PlannedTask],
    names: &[CertifiedAttack],
) -> Result<AttackPatches, ValidationError> {
    let run = RunDir::view(validated)?;
    let record = run.read_run()?;
    let arm = |name: &str| record.arms.iter().find(|arm| arm.name == name).map(|arm| &arm.id);
    let (Some(gold), Some(noop)) = (arm("gold"), arm("noop")) else {
        return Err(ValidationError::NoControls);
    };
    let mut all = AttackPatches::new();
    for (index, planned) in tasks.iter().enumerate() {
        let task = &planned.task;
        let id = |arm: &ArmId| TrialId { task: task.id.clone(), arm: arm.clone(), attempt: 1 };
        let resolves = run.check(&id(gold)).verdict.is_some_and(|verdict| verdict.resolved);
        let mut made = Vec::new();
        if resolves {
            let tree = start_of(&run, &id(noop))?;
            let start = |path: &str| -> Result<SideContent, Fault> {
                Ok(tree.mode(path).zip(tree.read(path)?))
            };
            let target = Target::of(task, &start)?;
            for (arm, attack) in pack.iter().enumerate() {
                made.push((arm, make(attack, &target, &start)?));
            }
        } else {
            let why = "gold does not resolve the task";
            made.extend((0..pack.len()).map(|arm| (arm, Made::NotApplicable(why.to_owned()))));
        }
        for cheat in &task.cheats {
            let arm = names.iter().position(|one| one.name == cheat.attack());
            made.extend(arm.map(|arm| (arm, Made::Patch(cheat.patch.clone().into_bytes()))));
        }
        all.insert(index, made);
    }
    Ok(all)
}

fn is_patch(made: &Made) -> bool {
    matches!(made, Made::Patch(_))
}

fn result_of(verdict: &Verdict) -> AttackResult {
    let outcome = |resolved| AttackOutcome::of(resolved, verdict.integrity);
    let policies: BTreeMap<_, _> = verdict
        .policies
        .iter()
        .map(|(name, policy)| (name.clone(), outcome(policy.resolved)))
        .collect();
    let seen = policies.values().any(|outcome| *outcome == AttackOutcome::Seen);
    let kinds = verdict.evidence.iter().filter(|_| seen).map(|evidence| evidence.kind.clone());
    let classes = if seen { verdict.classes() } else { BTreeSet::new() };
    AttackResult { seen_as: kinds.collect(), classes, policies, ..AttackResult::default() }
}

/// Returns a digest of the tasks' content.
fn dataset(tasks: &[PlannedTask]) -> String {
    let digests: BTreeSet<String> = tasks.iter().map(|planned| planned.task.digest()).collect();
    sha256_hex(digests.into_iter().collect::<Vec<_>>().join("\n").as_bytes())
}

fn revisions(tasks: &[PlannedTask]) -> BTreeSet<String> {
    let benchmarks = tasks.iter().filter_map(|planned| planned.task.benchmark.as_ref());
    benchmarks.filter_map(|one| Some(format!("{}@{}", one.name, one.revision.as_ref()?))).collect()
}
