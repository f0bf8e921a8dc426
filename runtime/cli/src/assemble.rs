//! Assembles the dependencies of planning and running: back ends, scaffolds and terminal messages.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use fake_llm::Script;
use proctor_catalog::Catalog;
use proctor_plan::{NewRun, PlanContext};
use proctor_record::RunDir;
use proctor_report::wrap_long_lines;
pub use proctor_run::{FlakyTests, RegradePolicy, grading_capacity};
use proctor_run::{PlannedTask, PreflightFinding};
use proctor_sandbox_api::Backend;
use proctor_scaffold_api::ScaffoldSource as _;
use proctor_types::{Arm, SandboxKind, Selection};

use crate::{
    cache_dir,
    config::{self, CacheSettings, ConfigFile, ConfigSource, NameLookup, RunConfig},
    error::{CommandError, UserError},
    progress,
};

/// Connects to one back end. Changes nothing on this machine.
pub async fn connect_backend(
    kind: SandboxKind,
    cache: &Path,
) -> Result<Arc<dyn Backend>, CommandError> {
    connect_backend_with(kind, cache, &CacheSettings::default()).await
}

async fn connect_backend_with(
    kind: SandboxKind,
    cache: &Path,
    cache_settings: &CacheSettings,
) -> Result<Arc<dyn Backend>, CommandError> {
    Ok(match kind {
        SandboxKind::Native => {
            let native = proctor_native::Native::new(cache.join("native"))?;
            Arc::new(match cache_settings.images_mb {
                Some(mb) => native.with_archive_budget(mb.saturating_mul(1 << 20)),
                None => native,
            })
        }
        SandboxKind::Docker => {
            let docker = proctor_docker::Docker::connect_in(&cache.join("docker")).await?;
            Arc::new(docker.with_cache_folder(cache.join("docker")))
        }
    })
}

/// Returns the scaffolds that a configuration may use.
pub fn scaffold_catalog() -> Result<Catalog, UserError> {
    Ok(Catalog::new(cache_dir::default_cache_dir()?))
}

/// Hint for choosing another back end, for commands with `--sandbox`.
pub const SANDBOX_OPTION_HINT: &str = "use --sandbox docker";
/// Hint for choosing another back end, for commands with `--set`.
pub const SANDBOX_KEY_HINT: &str = "use --set sandbox.kind=docker";

/// Returns the information about this machine and this program that planning needs.
pub fn plan_context<'a>(cache: &'a Path, catalog: &'a Catalog) -> PlanContext<'a> {
    PlanContext { cache, scaffolds: catalog, check_script: &check_script, say: &print_message }
}

/// Prints a message from planning or running.
pub fn print_message(line: String) {
    tell!("{line}");
}

/// Prints a preflight result.
pub fn print_preflight(finding: PreflightFinding) {
    let line = match finding {
        PreflightFinding::Note(line) => line,
        PreflightFinding::ModelFailed { model, fault } => {
            let who = format!("the preflight of `{model}`");
            format!("`{model}`: {}", progress::shorten_repeated(&who, &fault.to_string()))
        }
    };
    tell!("{}", wrap_long_lines(&format!("preflight: {line}")));
}

/// Checks that the file of a scripted model can be read.
pub fn check_script(file: &Path) -> Result<(), String> {
    Script::load(file).map(drop).map_err(|error| error.to_string())
}

/// Resolves a configuration: looks up scaffolds, models and other names, and computes the arms'
/// ids.
pub fn resolve_config(file: ConfigFile, source: &ConfigSource) -> Result<RunConfig, UserError> {
    let catalog = scaffold_catalog()?;
    let scaffold = |name: &str| catalog.find_scaffold(name);
    let known = NameLookup {
        find_scaffold: &scaffold,
        scaffold_names: catalog.names(),
        validate_script: &check_script,
    };
    config::resolve_config(file, source, &known)
}

/// Starts one back end and removes resources that crashed processes left behind.
pub async fn start_backend(
    kind: SandboxKind,
    cache: &Path,
) -> Result<Arc<dyn Backend>, CommandError> {
    start_backend_with(kind, cache, &CacheSettings::default()).await
}

async fn start_backend_with(
    kind: SandboxKind,
    cache: &Path,
    cache_settings: &CacheSettings,
) -> Result<Arc<dyn Backend>, CommandError> {
    cache_dir::lock_shared(cache)?;
    let backend = connect_backend_with(kind, cache, cache_settings).await?;
    for removed in backend.sweep().await? {
        tell!("removed leftovers from a crashed run: {removed}");
    }
    Ok(backend)
}

/// Starts the back ends that the arms need: those of the arms' sandboxes, and the native one if a
/// scaffold runs a user's program.
pub async fn start_backends(
    arms: &[Arm],
    cache: &Path,
    cache_settings: &CacheSettings,
) -> Result<BTreeMap<SandboxKind, Arc<dyn Backend>>, CommandError> {
    let mut kinds: BTreeSet<_> = arms.iter().map(|arm| arm.sandbox.kind).collect();
    let catalog = scaffold_catalog()?;
    if arms.iter().any(|arm| catalog.is_host_scaffold(&arm.scaffold)) {
        kinds.insert(SandboxKind::Native);
    }
    let mut backends = BTreeMap::new();
    for kind in kinds {
        backends.insert(kind, start_backend_with(kind, cache, cache_settings).await?);
    }
    Ok(backends)
}

/// Creates the run directory and writes the plan before anything starts.
pub fn create_run(
    out: &Path,
    file: &ConfigFile,
    arms: Vec<Arm>,
    tasks: &[PlannedTask],
    selection: Option<Selection>,
) -> Result<(RunDir, FlakyTests), CommandError> {
    let agent = proctor_embedded_agent::agent_digest();
    let new = NewRun { file, arms, tasks, selection, agent_sha256: agent };
    let (run, record) = proctor_plan::create_run(out, new)?;
    Ok((run, FlakyTests::from_record(&record, &print_message)))
}
