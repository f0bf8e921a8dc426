//! `proctor tasks validate`: checks whether a dataset can be trusted on this host.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use proctor_plan::{Planned, Purpose, Read};
use proctor_record::RunDir;
use proctor_report::wrapped;
use proctor_types::{Certificate, SandboxKind, SandboxSpec};
use proctor_validation::{
    Exposure, REDUCED, attack_table, certificate_of, exposed_tasks, invalid, lint_notes, never_run,
    not_for_gold, passes_without_gold, unverified_tasks,
};

use crate::{
    args::Dataset,
    assemble::{self, Flakes, Grading},
    commands::{
        attack,
        carry_out::{Work, carry_out},
        certificate, report,
    },
    config::{self, ArmFile, ConfigFile},
    error::{CommandError, INTERRUPTED, UserError},
    home,
    print::result,
};

/// The options of one validation.
pub struct Validation {
    pub dataset: Dataset,
    /// How many times gold and noop run.
    pub repeat: u32,
    /// The value of `--attack`: attacks of the pack to grade as well.
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

/// Checks that gold resolves every task and noop none, each time. Otherwise the exit status is 1.
pub async fn validate(asked: Validation) -> Result<ExitCode, CommandError> {
    let Validation { repeat, kind, jobs, .. } = asked;
    if asked.certificate.is_some() && repeat < 2 && asked.attack.is_none() {
        return Err(UserError::new("--certificate needs --repeat of at least 2, or --attack")
            .hint("a single run cannot detect flaky tests")
            .into());
    }
    let pack = asked.attack.as_deref().map(attack::select_attacks).transpose()?;
    let temporary = tempfile::Builder::new().prefix("proctor-validate-").tempdir()?;
    let out = asked.out.as_deref().unwrap_or(temporary.path());
    let cache = home::cache()?;
    let catalog = assemble::catalog()?;
    let world = assemble::world(&cache, &catalog);
    let read = Read::of_arguments(config_of(&asked), assemble::SANDBOX_OPTION);
    let resolved = read.resolve(world)?;
    let loaded = resolved.load(world, Purpose::Run, &[], asked.limit).await?;
    let backend = assemble::backend(kind, &cache).await?;
    let ready = loaded.bundle(world).await?.build(world, &backend).await?;
    let config = ready.config().file.clone();
    let Planned { run, record, plan } = ready.start(out, proctor_embedded_agent::agent_digest())?;
    let (planned, sample) = (plan.tasks.clone(), record.selection);
    let images = Arc::clone(&backend);
    // Don't reuse verdicts of equal patches: every repetition must run.
    let backends = BTreeMap::from([(kind, backend)]);
    let flakes = Flakes::default();
    let again = backends.clone();
    let grading = Grading::Anew;
    let work = Work { run, plan, jobs, backends, cache: &cache, grading, flakes };
    let done = carry_out(work).await?;
    if done == ExitCode::from(INTERRUPTED) {
        if asked.out.is_none() {
            tell!("kept: {}", temporary.keep().display());
        }
        return Ok(done);
    }
    let mut attacks = None;
    if let Some(pack) = pack {
        let on = attack::AttackTargets {
            pack,
            validated: out,
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
                tell!("kept: {}", temporary.keep().display());
            }
            return Ok(ExitCode::from(INTERRUPTED));
        }
    }
    if let Some(file) = &asked.certificate {
        let made = certificate_of(out)?;
        let made = Certificate { attacks: attacks.clone(), ..made };
        certificate::tell(&made);
        certificate::write(file, &made)?;
    }
    let mut failed = Vec::new();
    if let Some(attacks) = &attacks {
        result(&attack_table::table(attacks))?;
        for line in attack_table::allowed(attacks) {
            tell!("{}", wrapped(&format!("note: {line}")));
        }
        failed = attack_table::failed(attacks);
    }
    let report = report::of_run(out, HashMap::new())?;
    for line in passes_without_gold(&report, &RunDir::view(out)?) {
        tell!("note: {line}");
    }
    for line in unverified_tasks(&report, &RunDir::view(out)?, &planned) {
        tell!("{}", wrapped(&format!("note: {line}")));
    }
    for line in never_run(&planned, images.as_ref()).await {
        tell!("note: {line}");
    }
    for line in lint_notes(&planned) {
        tell!("{}", wrapped(&format!("note: {line}")));
    }
    let impossible = not_for_gold(&planned);
    let mut invalid = invalid(&report, &RunDir::view(out)?, &impossible);
    for (planned, wrong) in exposed_tasks(&report, &RunDir::view(out)?, &planned) {
        for Exposure { what, is_readable_test } in wrong {
            let line = format!("{}: {what}", planned.task.id);
            // A benchmark defines what its rows show to its agents, so this is only a note.
            match (is_readable_test && asked.visible_tests) || planned.task.benchmark.is_some() {
                true => tell!("note: {line}"),
                false => invalid.push(line),
            }
        }
    }
    if !failed.is_empty() {
        tell!("attacks:\n  {}", failed.join("\n  "));
        tell!("kept: {}", keep_directory(asked.out.as_deref(), temporary).display());
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
        // The log is needed to fix a task.
        tell!("kept: {}", temporary.keep().display());
    }
    Ok(ExitCode::from(1))
}

/// Keeps the run's directory, which is needed to fix a task.
fn keep_directory(out: Option<&Path>, temporary: tempfile::TempDir) -> PathBuf {
    out.map_or_else(|| temporary.keep(), Path::to_owned)
}

fn config_of(asked: &Validation) -> ConfigFile {
    let sandbox = SandboxSpec { kind: asked.kind, ..SandboxSpec::default() };
    let mut arms = vec![config::plain_arm("gold", &sandbox), config::plain_arm("noop", &sandbox)];
    if asked.certificate.is_some() && asked.repeat > 1 {
        let half = SandboxSpec {
            cpus: sandbox.cpus / 2.0,
            memory_mb: sandbox.memory_mb / 2,
            ..sandbox.clone()
        };
        arms.push(ArmFile { name: REDUCED.into(), ..config::plain_arm("gold", &half) });
    }
    let file = config::plain_config(asked.dataset.tasks.clone(), &sandbox, arms);
    ConfigFile { attempts: asked.repeat, jobs: asked.jobs, ..file }
}
