//! Attacks the grading of verified tasks (`docs/concepts/attacks.md`). A task is rejected if an attack
//! resolves it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
};

use proctor_attacks::{AttackPatch as Attempt, Target, generate_patch, load_pack, pack_digest};
use proctor_grade::GradeOptions;
use proctor_patch::{Change, CurrentFile, MODE_EXECUTABLE, MODE_FILE, Patch, RawPath, SideContent};
use proctor_types::{AttackOutcome, Fault, FaultLayer, Task};
use serde::{Deserialize, Serialize};

use super::{
    context::CandidateContext,
    outcome::{Outcome, Reject, VerifiedTask},
    seeded_rng::SeededRng,
    stage_cache::{StageCache, cache_result},
    verify,
};

/// Which tasks to attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttackSelection {
    All,
    /// A random sample of this many tasks at each level.
    Sample(usize),
}

/// The attacks that were run, for the report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttackSummary {
    /// The digest of the attack pack.
    pub pack: String,
    pub tasks: Vec<String>,
    /// Number of attacks run on the tasks in `tasks`. None of them resolved its task undetected.
    pub attacks: usize,
}

/// The result of all attacks on one task: the number of attacks if all of them failed, or the name
/// of the attack that succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum PackResult {
    Withstood(usize),
    Resolved(String),
}

impl CandidateContext<'_> {
    /// Runs the attacks on the selected tasks in `outcomes`. Rejects every task that an attack
    /// resolves.
    ///
    /// # Errors
    /// A fault of the cache or the attack pack. If a fault occurs while a task is attacked, the
    /// task is rejected with the stage `fault` instead.
    pub(super) async fn run_attacks(
        &self,
        outcomes: &mut [Outcome],
        (attacks, level): (AttackSelection, u8),
        cache: &StageCache,
        on_progress: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<AttackSummary, Fault> {
        let digest = pack_digest();
        let task_indexes: Vec<usize> = (0..outcomes.len())
            .filter(|&at| matches!(outcomes.get(at), Some(Outcome::Task(_))))
            .collect();
        let attacked_indexes: BTreeSet<usize> = match attacks {
            AttackSelection::All => task_indexes.into_iter().collect(),
            AttackSelection::Sample(count) => {
                let mut seeded =
                    SeededRng::from_parts(&[&self.seed, "attacks", &level.to_string()]);
                seeded.sample(task_indexes, count).into_iter().collect()
            }
        };
        let mut out = AttackSummary { pack: digest.clone(), ..AttackSummary::default() };
        for at in attacked_indexes {
            let Some(Outcome::Task(made)) = outcomes.get(at) else { continue };
            let of = format!("{}\0{digest}", made.task.digest());
            let tried = match cache.get("attacked", &of) {
                Some(tried) => Ok(tried),
                None => {
                    on_progress(&format!(
                        "attacking the grading of {}, level {level}",
                        made.facts.file
                    ));
                    let tried = self.run_attack_pack(made).await;
                    tried.inspect(|tried| cache_result(cache, "attacked", &of, tried))
                }
            };
            let reason = match tried {
                Ok(PackResult::Withstood(count)) => {
                    out.tasks.push(made.task.id.to_string());
                    out.attacks += count;
                    continue;
                }
                Ok(PackResult::Resolved(name)) => {
                    ("attacks", format!("the attack {name} resolves the task"))
                }
                Err(fault) => ("fault", fault.to_string()),
            };
            let stage = if level == 2 { format!("level_2: {}", reason.0) } else { reason.0.into() };
            let file = made.facts.file.clone();
            on_progress(&format!("{file}, level {level}: rejected: {}", reason.1));
            if let Some(place) = outcomes.get_mut(at) {
                *place = Outcome::Reject(Reject { file, stage, reason: reason.1 });
            }
        }
        Ok(out)
    }

    async fn run_attack_pack(&self, verified_task: &VerifiedTask) -> Result<PackResult, Fault> {
        let task = &verified_task.task;
        let (environment, findings) = verify::prepare_and_scan(self.verify_context(), task).await?;
        // Grade only the fail-to-pass tests. Otherwise, an attack that also breaks other tests
        // would count as failed.
        let alone = Task { pass_to_pass: Vec::new(), ..task.clone() };
        let mut count = 0;
        for (name, patch) in attack_patches(task, &self.tree.folder)? {
            let options = GradeOptions::default();
            let graded = verify::grade_patch(
                self.verify_context(),
                &alone,
                &environment,
                &findings,
                &patch,
                options,
            );
            let verdict = graded.await?.verdict;
            let strict = verdict.policies.get("strict").is_some_and(|it| it.resolved);
            if AttackOutcome::from_verdict(strict, verdict.integrity).is_success() {
                return Ok(PackResult::Resolved(name));
            }
            count += 1;
        }
        Ok(PackResult::Withstood(count))
    }
}

/// Returns the attack pack's patches that apply to a task, followed by the task's own cheats.
fn attack_patches(task: &Task, tree: &Path) -> Result<Vec<(String, Vec<u8>)>, Fault> {
    let broken = |why: String| Fault::new(FaultLayer::Grade, why);
    let start = InitialWorkdir::new(task, tree)?;
    let read = |path: &str| Ok(start.read(path));
    let target = Target::from_task(task, &read)?;
    let mut out = Vec::new();
    for attack in load_pack().map_err(broken)? {
        if let Attempt::Patch(patch) = generate_patch(attack, &target, &read)? {
            out.push((attack.name.clone(), patch));
        }
    }
    let own = task.cheats.iter().map(|it| (it.attack_name(), it.patch.clone().into_bytes()));
    out.extend(own);
    Ok(out)
}

/// The work directory before the agent starts.
struct InitialWorkdir<'a> {
    task: &'a Task,
    tree: &'a Path,
    masked_files: BTreeMap<RawPath, SideContent>,
}

impl<'a> InitialWorkdir<'a> {
    fn new(task: &'a Task, tree: &'a Path) -> Result<Self, Fault> {
        let current = |path: &RawPath| {
            let name = String::from_utf8_lossy(path.as_bytes()).into_owned();
            read_from_tree(tree, &name).map(|(mode, bytes)| CurrentFile::File { bytes, mode })
        };
        let mask = Patch::parse(task.mask.as_deref().unwrap_or_default().as_bytes());
        let changes = mask.resolve(&current).map_err(|error| {
            Fault::new(FaultLayer::Setup, format!("{}: cannot apply the mask: {error}", task.id))
        })?;
        let masked = changes.into_iter().filter_map(|change| match change {
            Change::Write { path, bytes, mode } => {
                Some((path, Some((mode.unwrap_or(MODE_FILE), bytes))))
            }
            Change::Remove { path } => Some((path, None)),
            Change::Symlink { .. } => None,
        });
        Ok(Self { task, tree, masked_files: masked.collect() })
    }

    fn read(&self, path: &str) -> SideContent {
        if let Some(scratch) = &self.task.from_scratch {
            return scratch.files.get(path).map(|text| (MODE_FILE, text.clone().into_bytes()));
        }
        if self.task.hidden.iter().any(|hidden| hidden == path) {
            return None;
        }
        match self.masked_files.get(&RawPath::from(path)) {
            Some(masked) => masked.clone(),
            None => read_from_tree(self.tree, path),
        }
    }
}

fn read_from_tree(tree: &Path, path: &str) -> SideContent {
    let path = tree.join(path);
    let bytes = fs::read(&path).ok()?;
    let mode = fs::metadata(&path).map_or(0, |it| it.permissions().mode());
    Some((if mode & 0o100 == 0 { MODE_FILE } else { MODE_EXECUTABLE }, bytes))
}
