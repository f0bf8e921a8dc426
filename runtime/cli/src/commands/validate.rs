//! `proctor tasks validate`: checks whether a dataset can be trusted on this host.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use proctor_plan::{PlannedRun, Purpose, ReadConfig};
use proctor_record::RunDir;
use proctor_report::wrap_long_lines;
use proctor_types::{Certificate, SandboxKind, SandboxSpec};
use proctor_validation::{
    Exposure, REDUCED_ARM, attack_table, build_certificate, exposed_tasks, impossible_tasks,
    invalid_trials, lint_notes, tests_passing_without_gold, unused_entrypoints, unverified_tasks,
};

use crate::{
    args::DatasetArgs,
    assemble::{self, FlakyTests, RegradePolicy},
    cache_dir,
    commands::{
        attack, certificate,
        execute::{PreparedRun, execute_and_report},
        report,
    },
    config::{self, ArmFile, ConfigFile},
    error::{CommandError, INTERRUPTED, UserError},
    print::print_result,
};

/// The options of `proctor tasks validate`.
pub struct ValidationOptions {
    pub dataset: DatasetArgs,
    /// Number of times that gold and noop run.
    pub repeat: u32,
    /// The value of `--attack`: the built-in attacks to grade.
    pub attack: Option<String>,
    /// Number of tasks to sample from the dataset.
    pub limit: Option<u64>,
    pub kind: SandboxKind,
    pub jobs: usize,
    pub out: Option<PathBuf>,
    pub certificate: Option<PathBuf>,
    /// Whether the agent may see the fail-to-pass tests.
    pub visible_tests: bool,
}

/// Checks that gold resolves every task and noop resolves none, in every repetition. If not, the
/// exit status is 1.
pub async fn validate(asked: ValidationOptions) -> Result<ExitCode, CommandError> {
    let ValidationOptions { repeat, kind, jobs, .. } = asked;
    if asked.certificate.is_some() && repeat < 2 && asked.attack.is_none() {
        return Err(UserError::new("--certificate needs --repeat of at least 2, or --attack")
            .hint("a single run cannot detect flaky tests")
            .into());
    }
    let pack = asked.attack.as_deref().map(attack::select_attacks).transpose()?;
    let temporary = tempfile::Builder::new().prefix("proctor-validate-").tempdir()?;
    let out = asked.out.as_deref().unwrap_or(temporary.path());
    let cache = cache_dir::default_cache_dir()?;
    let catalog = assemble::catalog()?;
    let world = assemble::plan_context(&cache, &catalog);
    let read = ReadConfig::from_arguments(validation_config(&asked), assemble::SANDBOX_OPTION);
    let resolved = read.resolve(world)?;
    let loaded = resolved.load(world, Purpose::Run, &[], asked.limit).await?;
    let backend = assemble::start_backend(kind, &cache).await?;
    let ready = loaded.build_bundles(world).await?.build_recipes(world, &backend).await?;
    let config = ready.config().file.clone();
    let PlannedRun { run, record, plan } =
        ready.create_run(out, proctor_embedded_agent::agent_digest())?;
    let (planned, sample) = (plan.tasks.clone(), record.selection);
    let images = Arc::clone(&backend);
    // Don't reuse verdicts of identical patches, because every repetition must run the tests.
    let backends = BTreeMap::from([(kind, backend)]);
    let flakes = FlakyTests::default();
    let again = backends.clone();
    let grading = RegradePolicy::Anew;
    let work = PreparedRun { run, plan, jobs, backends, cache: &cache, grading, flakes };
    let done = execute_and_report(work).await?;
    if done == ExitCode::from(INTERRUPTED) {
        if asked.out.is_none() {
            tell!("run directory kept: {}", temporary.keep().display());
        }
        return Ok(done);
    }
    let mut attacks = None;
    if let Some(pack) = pack {
        let on = attack::AttackTargets {
            pack,
            validation_run: out,
            config: &config,
            tasks: &planned,
            sample,
            backends: again,
            cache: &cache,
            jobs,
        };
        attacks = attack::attack(on).await?;
        if attacks.is_none() {
            if asked.out.is_none() {
                tell!("run directory kept: {}", temporary.keep().display());
            }
            return Ok(ExitCode::from(INTERRUPTED));
        }
    }
    if let Some(file) = &asked.certificate {
        let made = build_certificate(out)?;
        let made = Certificate { attacks: attacks.clone(), ..made };
        certificate::print_certificate(&made);
        certificate::write_certificate(file, &made)?;
    }
    let mut failed = Vec::new();
    if let Some(attacks) = &attacks {
        print_result(&attack_table::format_table(attacks))?;
        for line in attack_table::further_notes(attacks) {
            tell!("{}", wrap_long_lines(&format!("note: {line}")));
        }
        failed = attack_table::failures(attacks);
    }
    let report = report::build_report(out, HashMap::new())?;
    for line in tests_passing_without_gold(&report, &RunDir::open_read_only(out)?) {
        tell!("note: {line}");
    }
    for line in unverified_tasks(&report, &RunDir::open_read_only(out)?, &planned) {
        tell!("{}", wrap_long_lines(&format!("note: {line}")));
    }
    for line in unused_entrypoints(&planned, images.as_ref()).await {
        tell!("note: {line}");
    }
    for line in lint_notes(&planned) {
        tell!("{}", wrap_long_lines(&format!("note: {line}")));
    }
    let impossible = impossible_tasks(&planned);
    let mut invalid = invalid_trials(&report, &RunDir::open_read_only(out)?, &impossible);
    for (planned, wrong) in exposed_tasks(&report, &RunDir::open_read_only(out)?, &planned) {
        for Exposure { what, is_readable_test } in wrong {
            let line = format!("{}: {what}", planned.task.id);
            // A benchmark's own rows determine what agents can see, so an exposed test is not an
            // error there.
            match (is_readable_test && asked.visible_tests) || planned.task.benchmark.is_some() {
                true => tell!("note: {line}"),
                false => invalid.push(line),
            }
        }
    }
    if !failed.is_empty() {
        tell!("attacks:\n  {}", failed.join("\n  "));
        tell!("run directory kept: {}", keep_directory(asked.out.as_deref(), temporary).display());
        if !invalid.is_empty() {
            tell!("invalid:\n  {}", invalid.join("\n  "));
        }
        return Ok(ExitCode::from(1));
    }
    if invalid.is_empty() {
        let times = if repeat == 1 { String::new() } else { format!(", {repeat} times") };
        let every = if impossible.is_empty() { "" } else { " that can be resolved" };
        tell!("valid: gold resolves every task{every}, and noop resolves none{times}");
        return Ok(ExitCode::SUCCESS);
    }
    tell!("invalid:\n  {}", invalid.join("\n  "));
    if asked.out.is_none() {
        // The log in this directory is needed to fix a task.
        tell!("run directory kept: {}", temporary.keep().display());
    }
    Ok(ExitCode::from(1))
}

/// Keeps the run's directory, because its logs are needed to fix a task.
fn keep_directory(out: Option<&Path>, temporary: tempfile::TempDir) -> PathBuf {
    out.map_or_else(|| temporary.keep(), Path::to_owned)
}

fn validation_config(asked: &ValidationOptions) -> ConfigFile {
    let sandbox = SandboxSpec { kind: asked.kind, ..SandboxSpec::default() };
    let mut arms = vec![config::plain_arm("gold", &sandbox), config::plain_arm("noop", &sandbox)];
    if asked.certificate.is_some() && asked.repeat > 1 {
        let half = SandboxSpec {
            cpus: sandbox.cpus / 2.0,
            memory_mb: sandbox.memory_mb / 2,
            ..sandbox.clone()
        };
        arms.push(ArmFile { name: REDUCED_ARM.into(), ..config::plain_arm("gold", &half) });
    }
    let file = config::plain_config(asked.dataset.tasks.clone(), &sandbox, arms);
    ConfigFile { attempts: asked.repeat, jobs: asked.jobs, ..file }
}
