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
    Exposure, REDUCED_ARM, attack_table, build_certificate, find_task_exposures, impossible_tasks,
    invalid_trial_notes, lint_notes, passing_without_gold_notes, unused_entrypoint_notes,
    unverified_gold_notes,
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
    error::{CommandError, INTERRUPTED_STATUS, UserError},
    print::print_result,
};

/// The options of `proctor tasks validate`.
pub struct ValidationOptions {
    pub dataset: DatasetArgs,
    /// Number of times that gold and noop run.
    pub repetitions: u32,
    /// The value of `--attack`: the built-in attacks to grade.
    pub attack: Option<String>,
    /// Number of tasks to sample from the dataset.
    pub limit: Option<u64>,
    pub kind: SandboxKind,
    pub jobs: usize,
    pub out: Option<PathBuf>,
    pub certificate: Option<PathBuf>,
    /// Whether the agent may see the fail-to-pass tests.
    pub shows_tests: bool,
}

/// Checks that gold resolves every task and noop resolves none, in every repetition. If not, the
/// exit status is 1.
pub async fn validate(options: ValidationOptions) -> Result<ExitCode, CommandError> {
    let ValidationOptions { repetitions: repeat, kind, jobs, .. } = options;
    if options.certificate.is_some() && repeat < 2 && options.attack.is_none() {
        return Err(UserError::new("--certificate needs --repeat of at least 2, or --attack")
            .hint("a single run cannot detect flaky tests")
            .into());
    }
    let pack = options.attack.as_deref().map(attack::select_attacks).transpose()?;
    let temporary = tempfile::Builder::new().prefix("proctor-validate-").tempdir()?;
    let out = options.out.as_deref().unwrap_or(temporary.path());
    let cache = cache_dir::default_cache_dir()?;
    let catalog = assemble::scaffold_catalog()?;
    let world = assemble::plan_context(&cache, &catalog);
    let read =
        ReadConfig::from_arguments(validation_config(&options), assemble::SANDBOX_OPTION_HINT);
    let resolved = read.resolve(world)?;
    let loaded = resolved.load(world, Purpose::Run, &[], options.limit).await?;
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
    let grading = RegradePolicy::GradeAgain;
    let work = PreparedRun {
        run,
        plan,
        jobs,
        backends,
        cache: &cache,
        regrade_policy: grading,
        flaky_tests: flakes,
    };
    let done = execute_and_report(work).await?;
    if done == ExitCode::from(INTERRUPTED_STATUS) {
        if options.out.is_none() {
            tell!("run directory kept: {}", temporary.keep().display());
        }
        return Ok(done);
    }
    let mut attacks = None;
    if let Some(pack) = pack {
        let on = attack::AttackTargets {
            built_in_attacks: pack,
            validation_run: out,
            config: &config,
            tasks: &planned,
            selection: sample,
            backends: again,
            cache: &cache,
            jobs,
        };
        attacks = attack::run_attacks(on).await?;
        if attacks.is_none() {
            if options.out.is_none() {
                tell!("run directory kept: {}", temporary.keep().display());
            }
            return Ok(ExitCode::from(INTERRUPTED_STATUS));
        }
    }
    if let Some(file) = &options.certificate {
        let made = build_certificate(out)?;
        let made = Certificate { attacks: attacks.clone(), ..made };
        certificate::print_certificate(&made);
        certificate::write_certificate(file, &made)?;
    }
    let mut failed = Vec::new();
    if let Some(attacks) = &attacks {
        print_result(&attack_table::format_table(attacks))?;
        for line in attack_table::other_notes(attacks) {
            tell!("{}", wrap_long_lines(&format!("note: {line}")));
        }
        failed = attack_table::failure_notes(attacks);
    }
    let report = report::build_report(out, HashMap::new())?;
    for line in passing_without_gold_notes(&report, &RunDir::open_read_only(out)?) {
        tell!("note: {line}");
    }
    for line in unverified_gold_notes(&report, &RunDir::open_read_only(out)?, &planned) {
        tell!("{}", wrap_long_lines(&format!("note: {line}")));
    }
    for line in unused_entrypoint_notes(&planned, images.as_ref()).await {
        tell!("note: {line}");
    }
    for line in lint_notes(&planned) {
        tell!("{}", wrap_long_lines(&format!("note: {line}")));
    }
    let impossible = impossible_tasks(&planned);
    let mut invalid = invalid_trial_notes(&report, &RunDir::open_read_only(out)?, &planned);
    for (planned, wrong) in find_task_exposures(&report, &RunDir::open_read_only(out)?, &planned) {
        for Exposure { description: what, is_readable_test } in wrong {
            let line = format!("{}: {what}", planned.task.id);
            // A benchmark's own rows determine what agents can see, so an exposed test is not an
            // error there.
            match (is_readable_test && options.shows_tests) || planned.task.benchmark.is_some() {
                true => tell!("note: {line}"),
                false => invalid.push(line),
            }
        }
    }
    if !failed.is_empty() {
        tell!("attacks:\n  {}", failed.join("\n  "));
        tell!(
            "run directory kept: {}",
            keep_directory(options.out.as_deref(), temporary).display()
        );
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
    if options.out.is_none() {
        // The log in this directory is needed to fix a task.
        tell!("run directory kept: {}", temporary.keep().display());
    }
    Ok(ExitCode::from(1))
}

/// Keeps the run's directory, because its logs are needed to fix a task.
fn keep_directory(out: Option<&Path>, temp_dir: tempfile::TempDir) -> PathBuf {
    out.map_or_else(|| temp_dir.keep(), Path::to_owned)
}

fn validation_config(options: &ValidationOptions) -> ConfigFile {
    let sandbox = SandboxSpec { kind: options.kind, ..SandboxSpec::default() };
    let mut arms = vec![config::plain_arm("gold", &sandbox), config::plain_arm("noop", &sandbox)];
    if options.certificate.is_some() && options.repetitions > 1 {
        let half = SandboxSpec {
            cpus: sandbox.cpus / 2.0,
            memory_mb: sandbox.memory_mb / 2,
            ..sandbox.clone()
        };
        arms.push(ArmFile { name: REDUCED_ARM.into(), ..config::plain_arm("gold", &half) });
    }
    let file = config::plain_config(options.dataset.tasks.clone(), &sandbox, arms);
    ConfigFile { attempts: options.repetitions, jobs: options.jobs, ..file }
}
