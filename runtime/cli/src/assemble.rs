//! Puts the parts together: back ends, scaffolds, gateway, run directory.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use fake_llm::{FakeLlm, Script};
use proctor_core::{
    Cancel, Capacity, Environments, FrozenTests, LeakChecks, Plan, PlannedTask, Progress,
    RetryPolicy, RunContext, SharedMeters, Verdicts,
};
use proctor_egress::{Egress, Policy};
use proctor_gateway::{EndpointRates, Gateway, PriceTable, RatePolicy};
use proctor_grade::GradeOptions;
use proctor_record::RunDir;
use proctor_sandbox_api::{Backend, Machine};
use proctor_setup::Sources;
use proctor_types::{Arm, Fault, FlakePolicy, Layer, NetworkMode, RunRecord, SandboxKind};
use tokio::sync::mpsc::UnboundedSender;

use crate::{
    config::{ConfigFile, GradingFile},
    error::{CommandError, UserError},
};

/// The prefix of a base URL that names a script instead of an endpoint.
pub const SCRIPT: &str = "script:";

/// Starts one back end and removes what dead runtimes left behind on it.
pub async fn backend(kind: SandboxKind, cache: &Path) -> Result<Arc<dyn Backend>, CommandError> {
    let backend: Arc<dyn Backend> = match kind {
        SandboxKind::Native => Arc::new(proctor_native::Native::new(cache.join("native"))?),
        SandboxKind::Docker => Arc::new(proctor_docker::Docker::connect().await?),
    };
    for removed in backend.sweep().await? {
        eprintln!("removed what a dead run left: {removed}");
    }
    Ok(backend)
}

/// The back ends that some arms need.
pub async fn backends(
    arms: &[Arm],
    cache: &Path,
) -> Result<BTreeMap<SandboxKind, Arc<dyn Backend>>, CommandError> {
    let kinds: BTreeSet<_> = arms.iter().map(|arm| arm.sandbox.kind).collect();
    let mut backends = BTreeMap::new();
    for kind in kinds {
        backends.insert(kind, backend(kind, cache).await?);
    }
    Ok(backends)
}

/// Makes the path of every `script:FILE` absolute, from the current folder or else from `beside`:
/// a run is resumed from anywhere, and rate limits find the script by its address.
pub fn place_scripts(file: &mut ConfigFile, beside: &Path) {
    let models = file.models.values_mut().map(|model| &mut model.base_url);
    for base_url in models.chain(file.endpoints.values_mut().map(|table| &mut table.base_url)) {
        let Some(script) = base_url.strip_prefix(SCRIPT) else { continue };
        let found = [Path::new(script).to_owned(), beside.join(script)];
        if let Some(path) = found.iter().find_map(|path| path.canonicalize().ok()) {
            *base_url = format!("{SCRIPT}{}", path.display());
        }
    }
}

/// Whether every arm's model can be asked as it is configured: its address, its key's variable, and
/// a price where money is limited. `place` says where the arm's model was written.
pub fn check_models(
    arms: &[Arm],
    place: &dyn Fn(&Arm, UserError) -> UserError,
) -> Result<(), CommandError> {
    let gateway = Gateway::new(PriceTable::shipped()?)?;
    for arm in arms {
        let Some(model) = &arm.model else { continue };
        // A script has no address yet, and no key.
        let checked = match model.base_url.strip_prefix(SCRIPT) {
            Some(file) => {
                Script::load(Path::new(file))
                    .map_err(|error| UserError::new(format!("script {file}: {error}")))?;
                gateway.check_price(model, &arm.budget)
            }
            None => gateway.check(model, &arm.budget),
        };
        checked.map_err(|fault| {
            let what = format!("arm {}: {}", arm.name, fault.what);
            place(arm, UserError { what, hint: fault.hint })
        })?;
    }
    Ok(())
}

/// Scripted models that are being served; they stop when this is dropped.
pub struct Scripts {
    served: BTreeMap<String, FakeLlm>,
}

impl Scripts {
    /// Serves every `script:FILE` of the arms over real HTTP on loopback, and says so.
    pub async fn serve(arms: &[Arm]) -> Result<Self, CommandError> {
        let mut served = BTreeMap::new();
        for model in arms.iter().filter_map(|arm| arm.model.as_ref()) {
            let Some(file) = model.base_url.strip_prefix(SCRIPT) else { continue };
            if served.contains_key(&model.base_url) {
                continue;
            }
            let script = Script::load(Path::new(file))
                .map_err(|error| UserError::new(format!("script {file}: {error}")))?;
            let fake = FakeLlm::start(script).await?;
            eprintln!(
                "note: the model `{}` is a script ({file}), not a model: its numbers say nothing. \
                 Put a real one in with `--model openai/gpt-5.1`.",
                model.name
            );
            served.insert(model.base_url.clone(), fake);
        }
        Ok(Self { served })
    }

    /// The arm as it runs: a script's name replaced by the address that serves it.
    pub fn addressed(&self, arm: &Arm) -> Arm {
        let mut arm = arm.clone();
        if let Some(model) = &mut arm.model
            && let Some(fake) = self.served.get(&model.base_url)
        {
            model.base_url = fake.base_url();
        }
        arm
    }

    /// The rate limits of a configuration, addressed in the same way.
    pub fn limited<'a>(
        &self,
        tables: impl IntoIterator<Item = &'a EndpointRates>,
    ) -> Vec<EndpointRates> {
        let addressed = |table: &EndpointRates| {
            let mut table = table.clone();
            if let Some(fake) = self.served.get(&table.base_url) {
                table.base_url = fake.base_url();
            }
            table
        };
        tables.into_iter().map(addressed).collect()
    }
}

/// Checks that each task's `blocked_urls` can be kept, where an arm opens a proxy at all.
pub fn check_egress(arms: &[Arm], tasks: &[PlannedTask]) -> Result<(), UserError> {
    for arm in arms.iter().filter(|arm| arm.network.mode != NetworkMode::Closed) {
        for planned in tasks {
            Policy::new(&arm.network, &planned.task).map_err(|why| {
                UserError::new(format!("task {}: {why}", planned.task.id))
                    .hint("docs/egress.md has the grammar")
            })?;
        }
    }
    Ok(())
}

/// Whether a patch that was graded already, by this grader in the same environment, is graded again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grading {
    Once,
    Anew,
}

/// What a certificate says of a plan's tests, and what grading does about it.
#[derive(Debug, Default)]
pub struct Flakes {
    unreliable: BTreeMap<String, BTreeSet<String>>,
    policy: FlakePolicy,
}

impl Flakes {
    pub fn of(record: &RunRecord) -> Self {
        let Some(certificate) = &record.certificate else { return Self::default() };
        let kinds: BTreeSet<_> = record.arms.iter().map(|arm| arm.sandbox.kind).collect();
        for kind in kinds.into_iter().map(|kind| serde_json::json!(kind)) {
            if kind != certificate.backend.as_str() {
                let made = &certificate.backend;
                eprintln!(
                    "note: the certificate was made in {made} sandboxes, and these are {kind}"
                );
            }
        }
        let mut unreliable = BTreeMap::new();
        for task in &record.tasks {
            match certificate.unreliable(&task.task.id, &task.digest) {
                Some(ids) => drop(unreliable.insert(task.digest.clone(), ids)),
                None => eprintln!("note: the certificate does not certify {}", task.task.id),
            }
        }
        Self { unreliable, policy: record.flaky }
    }
}

/// What gradings may use together: what the configuration grants, else what the back ends have. Of
/// several back ends the smaller counts, since they may well be the same machine.
pub fn capacity(
    granted: &GradingFile,
    backends: &BTreeMap<SandboxKind, Arc<dyn Backend>>,
) -> Machine {
    let machines = backends.values().map(|backend| backend.machine());
    let there = machines.reduce(Machine::smaller).unwrap_or_else(Machine::here);
    Machine {
        cpus: granted.cpus.unwrap_or(there.cpus),
        memory_mb: granted.memory_mb.unwrap_or(there.memory_mb),
    }
}

/// Everything that the trials of a run share. `endpoints` are the rate limits of the configuration,
/// as addressed as the plan is.
pub fn context(
    run: RunDir,
    plan: &Plan,
    endpoints: Vec<EndpointRates>,
    backends: BTreeMap<SandboxKind, Arc<dyn Backend>>,
    cache: &Path,
    (verdicts, flakes): (Grading, Flakes),
    progress: UnboundedSender<Progress>,
) -> Result<RunContext, CommandError> {
    let blobs = Arc::new(run.blobs());
    let granted = match run.read_run()?.config.get("grading") {
        Some(granted) => serde_json::from_value(granted.clone())?,
        None => GradingFile::default(),
    };
    let capacity = Capacity::of(&capacity(&granted, &backends));
    let scaffolds = proctor_scaffolds::names()
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), proctor_scaffolds::builtin(name)?)))
        .collect();
    let replay = plan
        .arms
        .iter()
        .filter_map(|arm| {
            let path = arm.settings.get("replay")?.as_str()?;
            Some((arm.name.clone(), path.into()))
        })
        .collect();
    let egress = Egress::new()
        .map_err(|error| Fault::new(Layer::Sandbox, format!("the egress proxy: {error}")))?;
    let gateway = Gateway::new(PriceTable::shipped()?)?.rates(endpoints, RatePolicy::shipped()?);
    Ok(RunContext {
        shared: SharedMeters::of(&run, plan)?,
        run: Arc::new(run),
        blobs,
        backends,
        scaffolds,
        environments: Environments::new(Sources::new(cache.join("sources"))),
        leak_checks: LeakChecks::new(cache.join("leak-checks")),
        gateway: Arc::new(gateway),
        egress,
        grading: GradeOptions::default(),
        capacity,
        frozen: FrozenTests::new((verdicts == Grading::Once).then(|| cache.join("frozen"))),
        verdicts: match verdicts {
            Grading::Once => Some(Verdicts::at(cache.join("verdicts"))),
            Grading::Anew => None,
        },
        unreliable: flakes.unreliable,
        flaky: flakes.policy,
        retry: RetryPolicy::default(),
        replay,
        progress,
        cancel: Cancel::default(),
    })
}
