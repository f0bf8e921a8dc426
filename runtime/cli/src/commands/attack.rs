//! `proctor tasks validate --attack`: grades the built-in attacks on each task in the same way as
//! gold.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use proctor_attacks::{Attack, load_pack};
use proctor_run::{Execution, Plan, PlannedTask};
use proctor_sandbox_api::Backend;
use proctor_types::{AttackCertificate, SandboxKind, Selection};
use proctor_validation::AttackRun;

use crate::{
    args::ALL_ATTACKS,
    assemble::{self, FlakyTests, RegradePolicy},
    commands::execute::{PlanOutcome, execute_plan},
    config::ConfigFile,
    error::{CommandError, UserError},
    open_files,
};

/// Subdirectory of the validation's run directory. It contains a separate run with one arm per
/// attack.
const ATTACKS_DIR: &str = "attacks";

/// The inputs of an attack run. A validation has already run gold and noop on the tasks.
pub struct AttackTargets<'a> {
    /// The built-in attacks to run, in addition to the attacks that the tasks define.
    pub built_in_attacks: Vec<&'static Attack>,
    /// The directory of the run in which gold and noop were graded.
    pub validation_run: &'a Path,
    pub config: &'a ConfigFile,
    pub tasks: &'a [PlannedTask],
    pub selection: Option<Selection>,
    pub backends: BTreeMap<SandboxKind, Arc<dyn Backend>>,
    pub cache: &'a Path,
    pub jobs: usize,
}

/// Returns the built-in attacks that the user named, in the order in which Proctor lists them.
pub fn select_attacks(names: &str) -> Result<Vec<&'static Attack>, CommandError> {
    let pack = load_pack().map_err(|why| anyhow::anyhow!(why))?;
    if names == ALL_ATTACKS {
        return Ok(pack.iter().collect());
    }
    let names: Vec<&str> = names.split(',').map(str::trim).collect();
    if let Some(unknown) = names.iter().find(|name| !pack.iter().any(|one| one.name == **name)) {
        let known: Vec<&str> = pack.iter().map(|one| one.name.as_str()).collect();
        return Err(UserError::new(format!("--attack: unknown attack {unknown}"))
            .hint(format!("attacks: {}", known.join(", ")))
            .into());
    }
    Ok(pack.iter().filter(|one| names.contains(&one.name.as_str())).collect())
}

/// Runs the attacks and returns their certificate, or `None` if the run was interrupted.
pub async fn run_attacks(
    targets: AttackTargets<'_>,
) -> Result<Option<AttackCertificate>, CommandError> {
    let attacks = AttackRun::new(
        &targets.built_in_attacks,
        targets.validation_run,
        targets.tasks,
        &targets.config.sandbox,
    )?;
    open_files::check_limit(targets.jobs, attacks.patch_count(), attacks.arms().iter())?;
    let out = targets.validation_run.join(ATTACKS_DIR);
    let config = ConfigFile { arms: Vec::new(), attempts: 1, ..targets.config.clone() };
    let arms = attacks.arms().to_vec();
    let (run, _) = assemble::create_run(
        &out,
        &config,
        arms.clone(),
        targets.tasks,
        targets.selection.clone(),
    )?;
    let plan = Plan {
        tasks: targets.tasks.to_vec(),
        arms: arms.into_iter().map(Arc::new).collect(),
        attempts: 1,
        trials_to_run: Some(attacks.record_patches(&run)?),
        ..Plan::default()
    };
    let catalog = assemble::scaffold_catalog()?;
    let execution = Execution {
        run,
        plan,
        jobs: targets.jobs,
        backends: targets.backends.clone(),
        scaffolds: &catalog,
        cache: targets.cache,
        regrade_policy: RegradePolicy::GradeAgain,
        flaky_tests: FlakyTests::default(),
        say: &assemble::print_message,
        on_preflight: &assemble::print_preflight,
    };
    if !matches!(execute_plan(execution, true).await?, PlanOutcome::Finished { .. }) {
        return Ok(None);
    }
    Ok(Some(attacks.read_results(&out, targets.selection)?))
}
