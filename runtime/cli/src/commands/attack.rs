//! `proctor tasks validate --attack`: grades the attack pack on each task the way gold was graded.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use proctor_attacks::{Attack, Made, Target, digest, make, pack};
use proctor_core::{Plan, PlannedTask, Taken, record_prediction, start_of};
use proctor_patch::SideContent;
use proctor_record::RunDir;
use proctor_sandbox_api::Backend;
use proctor_types::{
    Arm, AttackCertificate, AttackOutcome, AttackResult, AttackedTask, CertifiedAttack, Fault,
    SandboxKind, Selection, TrialId, Verdict, sha256_hex,
};
use serde_json::json;

use crate::{
    args::WHOLE_PACK,
    assemble::{Flakes, Grading},
    commands::{
        carry_out::{Carried, carry},
        predictions, run,
    },
    config::ConfigFile,
    error::{CommandError, UserError},
    open_files,
};

/// Below the validation's run: a separate run with an arm per attack.
const FOLDER: &str = "attacks";

/// What is attacked: the tasks of a validation, after gold and noop.
pub struct Attacked<'a> {
    /// The attacks, besides the tasks' own.
    pub pack: Vec<&'static Attack>,
    /// The run of gold and noop.
    pub validated: &'a Path,
    pub config: &'a ConfigFile,
    pub tasks: &'a [PlannedTask],
    pub sample: Option<Selection>,
    pub backends: BTreeMap<SandboxKind, Arc<dyn Backend>>,
    pub cache: &'a Path,
    pub jobs: usize,
}

/// The attacks of the pack that a user named, in pack order.
pub fn chosen(named: &str) -> Result<Vec<&'static Attack>, CommandError> {
    let pack = pack().map_err(|why| anyhow::anyhow!(why))?;
    if named == WHOLE_PACK {
        return Ok(pack.iter().collect());
    }
    let names: Vec<&str> = named.split(',').map(str::trim).collect();
    if let Some(unknown) = names.iter().find(|name| !pack.iter().any(|one| one.name == **name)) {
        let known: Vec<&str> = pack.iter().map(|one| one.name.as_str()).collect();
        return Err(UserError::new(format!("--attack: unknown attack {unknown}"))
            .hint(format!("attacks: {}", known.join(", ")))
            .into());
    }
    Ok(pack.iter().filter(|one| names.contains(&one.name.as_str())).collect())
}

/// By task, in arm order.
type AllMade = BTreeMap<usize, Vec<(usize, Made)>>;

/// Runs the pack. `None`: it was interrupted.
pub async fn attack(on: Attacked<'_>) -> Result<Option<AttackCertificate>, CommandError> {
    let names = names(&on.pack, on.tasks);
    let pack_digest = digest();
    let arms: Vec<Arm> = names
        .iter()
        .map(|one| {
            let settings = json!({ "attack": one.name, "pack": pack_digest });
            predictions::arm(&one.name, &on.config.sandbox, settings)
        })
        .collect();
    let made = all_made(&on, &names)?;
    let patches: usize = made.values().flatten().filter(|(_, made)| is_patch(made)).count();
    open_files::check(on.jobs, patches, arms.iter())?;
    let out = on.validated.join(FOLDER);
    let config = ConfigFile { arms: Vec::new(), attempts: 1, ..on.config.clone() };
    let (run, _) = run::start(&out, &config, arms.clone(), on.tasks, on.sample.clone())?;
    let trial = |task: usize, arm: usize| TrialId {
        task: on.tasks[task].task.id.clone(),
        arm: arms[arm].id.clone(),
        attempt: 1,
    };
    let mut only = BTreeSet::new();
    for (task, made) in &made {
        for (arm, made) in made {
            if let Made::Patch(patch) = made {
                record_prediction(&run, &trial(*task, *arm), Taken::Patch(patch))?;
                only.insert(trial(*task, *arm));
            }
        }
    }
    let plan = Plan {
        tasks: on.tasks.to_vec(),
        arms: arms.iter().cloned().map(Arc::new).collect(),
        attempts: 1,
        only: Some(only),
        ..Plan::default()
    };
    let flakes = Flakes::default();
    let done = carry(run, plan, on.jobs, on.backends.clone(), on.cache, Grading::Anew, flakes);
    if !matches!(done.await?, Carried::Done { .. }) {
        return Ok(None);
    }
    let run = RunDir::view(&out)?;
    let mut tasks = Vec::new();
    for (index, planned) in on.tasks.iter().enumerate() {
        let mut environment = None;
        let mut results = BTreeMap::new();
        for (arm, made) in made.get(&index).into_iter().flatten() {
            let result = match made {
                Made::NotApplicable(why) => {
                    AttackResult { not_applicable: Some(why.clone()), ..AttackResult::default() }
                }
                Made::Patch(_) => match run.check(&trial(index, *arm)).verdict {
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
            results.insert(names[*arm].name.clone(), result);
        }
        let task = planned.task.id.clone();
        let digest = planned.task.digest();
        tasks.push(AttackedTask { task, digest, environment, attacks: results });
    }
    Ok(Some(AttackCertificate {
        pack: pack_digest,
        dataset: dataset(on.tasks),
        revisions: revisions(on.tasks),
        sample: on.sample,
        attacks: names,
        tasks,
    }))
}

/// The pack's attacks, followed by the tasks' own.
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

/// Every patch, created from the start of the noop trial.
fn all_made(on: &Attacked<'_>, names: &[CertifiedAttack]) -> Result<AllMade, CommandError> {
    let run = RunDir::view(on.validated)?;
    let record = run.read_run()?;
    let arm = |name: &str| record.arms.iter().find(|arm| arm.name == name).map(|arm| &arm.id);
    let (Some(gold), Some(noop)) = (arm("gold"), arm("noop")) else {
        return Err(anyhow::anyhow!("the run lacks the gold or the noop arm").into());
    };
    let mut all = AllMade::new();
    for (index, planned) in on.tasks.iter().enumerate() {
        let task = &planned.task;
        let id = |arm: &proctor_types::ArmId| TrialId {
            task: task.id.clone(),
            arm: arm.clone(),
            attempt: 1,
        };
        let resolves = run.check(&id(gold)).verdict.is_some_and(|verdict| verdict.resolved);
        let mut made = Vec::new();
        if resolves {
            let tree = start_of(&run, &id(noop))?;
            let start = |path: &str| -> Result<SideContent, Fault> {
                Ok(tree.mode(path).zip(tree.read(path)?))
            };
            let target = Target::of(task, &start)?;
            for (arm, attack) in on.pack.iter().enumerate() {
                made.push((arm, make(attack, &target, &start)?));
            }
        } else {
            let why = "gold does not resolve the task";
            made.extend((0..on.pack.len()).map(|arm| (arm, Made::NotApplicable(why.to_owned()))));
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

/// Identifies the tasks by their content.
fn dataset(tasks: &[PlannedTask]) -> String {
    let digests: BTreeSet<String> = tasks.iter().map(|planned| planned.task.digest()).collect();
    sha256_hex(digests.into_iter().collect::<Vec<_>>().join("\n").as_bytes())
}

fn revisions(tasks: &[PlannedTask]) -> BTreeSet<String> {
    let benchmarks = tasks.iter().filter_map(|planned| planned.task.benchmark.as_ref());
    benchmarks.filter_map(|one| Some(format!("{}@{}", one.name, one.revision.as_ref()?))).collect()
}
