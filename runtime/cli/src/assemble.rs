//! Assembles the dependencies of planning and running: back ends, scaffolds and terminal messages.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use fake_llm::Script;
use proctor_catalog::Catalog;
use proctor_plan::{NewRun, World};
use proctor_record::RunDir;
use proctor_report::wrapped;
pub use proctor_run::{Flakes, Grading, capacity};
use proctor_run::{PlannedTask, Preflight};
use proctor_sandbox_api::Backend;
use proctor_scaffold_api::ScaffoldSource as _;
use proctor_types::{Arm, SandboxKind, Selection};

use crate::{
    config::{self, CacheFile, ConfigFile, Known, RunConfig, Written},
    error::{CommandError, UserError},
    home, progress,
};

/// Connects to one back end without changing anything.
pub async fn connect(kind: SandboxKind, cache: &Path) -> Result<Arc<dyn Backend>, CommandError> {
    connect_with(kind, cache, &CacheFile::default()).await
}

async fn connect_with(
    kind: SandboxKind,
    cache: &Path,
    kept: &CacheFile,
) -> Result<Arc<dyn Backend>, CommandError> {
    Ok(match kind {
        SandboxKind::Native => {
            let native = proctor_native::Native::new(cache.join("native"))?;
            Arc::new(match kept.images_mb {
                Some(mb) => native.with_archive_budget(mb.saturating_mul(1 << 20)),
                None => native,
            })
        }
        SandboxKind::Docker => {
            let docker = proctor_docker::Docker::connect_in(&cache.join("docker")).await?;
            Arc::new(docker.keeping(cache.join("docker")))
        }
    })
}

/// The scaffolds that a configuration may use.
pub fn catalog() -> Result<Catalog, UserError> {
    Ok(Catalog::new(home::cache()?))
}

/// Hint for choosing another back end, for commands with `--sandbox`.
pub const SANDBOX_OPTION: &str = "use --sandbox docker";
/// The same hint for commands with `--set`.
pub const SANDBOX_KEY: &str = "use --set sandbox.kind=docker";

/// Returns what planning needs to know about this machine and this program.
pub fn world<'a>(cache: &'a Path, catalog: &'a Catalog) -> World<'a> {
    World { cache, scaffolds: catalog, script: &script, say: &say }
}

/// Prints a message from planning or running.
pub fn say(line: String) {
    tell!("{line}");
}

/// Prints a preflight result.
pub fn print_preflight(preflight: Preflight) {
    let line = match preflight {
        Preflight::Note(line) => line,
        Preflight::Failed { model, fault } => {
            let who = format!("the preflight of `{model}`");
            format!("`{model}`: {}", progress::brief(&who, &fault.to_string()))
        }
    };
    tell!("{}", wrapped(&format!("preflight: {line}")));
}

/// Checks that the file of a scripted model can be read.
pub fn script(file: &Path) -> Result<(), String> {
    Script::load(file).map(drop).map_err(|error| error.to_string())
}

/// Resolves a configuration: looks up every name and computes the arms' ids.
pub fn resolve(file: ConfigFile, written: &Written) -> Result<RunConfig, UserError> {
    let catalog = catalog()?;
    let scaffold = |name: &str| catalog.named(name);
    let known = Known { scaffold: &scaffold, scaffolds: catalog.names(), script: &script };
    config::resolve(file, written, &known)
}

/// Starts one back end and removes leftovers of dead processes from it.
pub async fn backend(kind: SandboxKind, cache: &Path) -> Result<Arc<dyn Backend>, CommandError> {
    backend_with(kind, cache, &CacheFile::default()).await
}

async fn backend_with(
    kind: SandboxKind,
    cache: &Path,
    kept: &CacheFile,
) -> Result<Arc<dyn Backend>, CommandError> {
    home::hold(cache)?;
    let backend = connect_with(kind, cache, kept).await?;
    for removed in backend.sweep().await? {
        tell!("removed leftovers of a dead run: {removed}");
    }
    Ok(backend)
}

/// Connects to the back ends that the arms need, for their own sandboxes and for users' programs.
pub async fn backends(
    arms: &[Arm],
    cache: &Path,
    kept: &CacheFile,
) -> Result<BTreeMap<SandboxKind, Arc<dyn Backend>>, CommandError> {
    let mut kinds: BTreeSet<_> = arms.iter().map(|arm| arm.sandbox.kind).collect();
    let catalog = catalog()?;
    if arms.iter().any(|arm| catalog.is_host(&arm.scaffold)) {
        kinds.insert(SandboxKind::Native);
    }
    let mut backends = BTreeMap::new();
    for kind in kinds {
        backends.insert(kind, backend_with(kind, cache, kept).await?);
    }
    Ok(backends)
}

/// Creates the run directory and writes the plan before anything starts.
pub fn start(
    out: &Path,
    file: &ConfigFile,
    arms: Vec<Arm>,
    tasks: &[PlannedTask],
    selection: Option<Selection>,
) -> Result<(RunDir, Flakes), CommandError> {
    let agent = proctor_embedded_agent::agent_digest();
    let new = NewRun { file, arms, tasks, selection, agent };
    let (run, record) = proctor_plan::start(out, new)?;
    Ok((run, Flakes::of(&record, &say)))
}
