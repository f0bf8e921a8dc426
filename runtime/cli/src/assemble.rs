//! Assembles back ends, scaffolds, gateway and run directory.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use fake_llm::{FakeLlm, Script};
use proctor_core::{
    Cancel, Capacity, Comparing, Environments, FaultPolicy, FrozenTests, Halts, LeakChecks,
    OutsideLimits, Plan, Progress, RunContext, SharedMeters, Verdicts, met, shared_rates,
};
use proctor_egress::Egress;
use proctor_gateway::{EndpointRates, Gateway, PriceTable, RatePolicy};
use proctor_grade::GradeOptions;
use proctor_record::RunDir;
use proctor_sandbox_api::{Backend, Machine};
use proctor_setup::Sources;
use proctor_types::{Arm, Fault, FlakePolicy, Layer, RunRecord, SandboxKind, sha256_hex};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use crate::{
    config::{GradingFile, Known, REPLAY, ResumeFile, SCRIPT},
    error::{CommandError, UserError},
    home,
    scaffolds::{self, Scaffolds},
};

/// Connects to one back end without changing anything.
pub async fn connect(kind: SandboxKind, cache: &Path) -> Result<Arc<dyn Backend>, CommandError> {
    Ok(match kind {
        SandboxKind::Native => Arc::new(proctor_native::Native::new(cache.join("native"))?),
        SandboxKind::Docker => {
            let docker = proctor_docker::Docker::connect_in(&cache.join("docker")).await?;
            Arc::new(docker.keeping(cache.join("docker")))
        }
    })
}

/// The names that a configuration may use.
pub fn known() -> Known<'static> {
    fn script(file: &Path) -> Result<(), String> {
        Script::load(file).map(drop).map_err(|error| error.to_string())
    }
    Known { scaffold: &scaffolds::named, scaffolds: scaffolds::names(), script: &script }
}

/// Starts one back end and removes leftovers of dead processes from it.
pub async fn backend(kind: SandboxKind, cache: &Path) -> Result<Arc<dyn Backend>, CommandError> {
    home::hold(cache)?;
    let backend = connect(kind, cache).await?;
    for removed in backend.sweep().await? {
        tell!("removed leftovers of a dead run: {removed}");
    }
    Ok(backend)
}

/// The back ends that some arms need: for their own sandboxes and for users' programs.
pub async fn backends(
    arms: &[Arm],
    cache: &Path,
) -> Result<BTreeMap<SandboxKind, Arc<dyn Backend>>, CommandError> {
    let mut kinds: BTreeSet<_> = arms.iter().map(|arm| arm.sandbox.kind).collect();
    if arms.iter().any(|arm| scaffolds::is_host(&arm.scaffold)) {
        kinds.insert(SandboxKind::Native);
    }
    let mut backends = BTreeMap::new();
    for kind in kinds {
        backends.insert(kind, backend(kind, cache).await?);
    }
    Ok(backends)
}

/// Checks that every arm's model can be called as configured: its URL, its key's variable, and a
/// price if cost is limited. `place` adds where the arm's model is configured.
pub fn check_models(
    arms: &[Arm],
    place: &dyn Fn(&Arm, UserError) -> UserError,
) -> Result<(), CommandError> {
    let gateway = Gateway::new(PriceTable::shipped()?)?;
    for arm in arms {
        let Some(model) = &arm.model else { continue };
        // A script has no URL yet, and no key.
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

/// Running scripted models; dropping this stops them.
pub struct Scripts {
    served: BTreeMap<String, FakeLlm>,
}

impl Scripts {
    /// Serves every `script:FILE` of the arms over HTTP on loopback, and reports it.
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
            tell!(
                "note: the model `{}` is a script ({file}), so its results are meaningless; use a \
                 real model with `--model openai/gpt-5.1`",
                model.name
            );
            served.insert(model.base_url.clone(), fake);
        }
        Ok(Self { served })
    }

    /// The arm as it runs: a script's name is replaced with its URL.
    pub fn addressed(&self, arm: &Arm) -> Arm {
        let mut arm = arm.clone();
        if let Some(model) = &mut arm.model
            && let Some(fake) = self.served.get(&model.base_url)
        {
            model.base_url = fake.base_url();
        }
        arm
    }

    /// A configuration's rate limits with the same replacement.
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

/// Whether a patch that this grader has already graded in the same environment is graded again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grading {
    Once,
    Anew,
}

/// What a certificate says about a plan's tests, and how grading treats them.
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
                tell!(
                    "note: the certificate was made with {made} sandboxes, but this run uses {kind}"
                );
            }
        }
        let mut unreliable = BTreeMap::new();
        // A certificate made only by attacks says nothing about single tests.
        let repeated = record.tasks.iter().filter(|_| !certificate.tasks.is_empty());
        for task in repeated {
            match certificate.unreliable(&task.task.id, &task.digest) {
                Some(ids) => {
                    // An arm's `[statement]` changes what its agent receives but no test; its clock
                    // may change one.
                    let whole = Arc::new(task.task.clone());
                    for arm in &record.arms {
                        let digest = met(&whole, arm).digest();
                        unreliable.insert(digest, ids.clone());
                    }
                }
                None => tell!("note: the certificate does not cover {}", task.task.id),
            }
        }
        Self { unreliable, policy: record.flaky }
    }
}

/// What gradings may use together: the configured limit, else what the back ends have. Of several
/// back ends the smallest counts, because they may be the same machine.
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

/// The trajectory of each arm that replays one. The arm knows it by content, the configuration by
/// path.
fn replays(record: &RunRecord) -> Result<BTreeMap<String, PathBuf>, UserError> {
    let arms = record.config.get("arms").and_then(Value::as_array);
    let mut found = BTreeMap::new();
    for written in arms.into_iter().flatten() {
        let text = |key: &str| written.get(key).and_then(Value::as_str);
        let (Some(name), Some(path)) = (text("name"), text("replay")) else { continue };
        let Some(arm) = record.arms.iter().find(|arm| arm.name == name) else { continue };
        let known = arm.settings.get(REPLAY).and_then(Value::as_str);
        let bytes = std::fs::read(path)
            .map_err(|error| UserError::new(format!("arm {name}: cannot read {path}: {error}")))?;
        if known != Some(sha256_hex(&bytes).as_str()) {
            let what = format!("arm {name}: {path} has changed since the run was planned");
            return Err(UserError::new(what).hint("restore the trajectory, or start a new run"));
        }
        found.insert(name.to_owned(), path.into());
    }
    Ok(found)
}

/// Everything that the trials of a run share. `endpoints` are the configuration's rate limits, with
/// the same URLs as the plan.
pub fn context(
    run: RunDir,
    plan: &Plan,
    endpoints: Vec<EndpointRates>,
    backends: BTreeMap<SandboxKind, Arc<dyn Backend>>,
    cache: &Path,
    ((verdicts, flakes), scaffolds): ((Grading, Flakes), Scaffolds),
    progress: UnboundedSender<Progress>,
) -> Result<RunContext, CommandError> {
    let record = run.read_run()?;
    let granted = match record.config.get("grading") {
        Some(granted) => serde_json::from_value(granted.clone())?,
        None => GradingFile::default(),
    };
    let capacity = Capacity::of(&capacity(&granted, &backends));
    let resume = match record.config.get("resume") {
        Some(resume) => serde_json::from_value(resume.clone())?,
        None => ResumeFile::default(),
    };
    let replay = replays(&record)?;
    let sources = record.tasks.iter();
    let sources = sources.filter_map(|one| Some((one.task.id.clone(), one.source.clone()?)));
    let sources = sources.collect();
    let egress = Egress::new().map_err(|error| {
        Fault::new(Layer::Sandbox, format!("failed to start the egress proxy: {error}"))
    })?;
    let policy = RatePolicy::shipped()?;
    let endpoints = shared_rates(&run, endpoints, policy)?;
    let gateway = Gateway::new(PriceTable::shipped()?)?.shared_rates(endpoints, policy);
    Ok(RunContext {
        shared: SharedMeters::of(&run, plan)?,
        run: Arc::new(run),
        backends,
        scaffolds,
        environments: Environments::new(Sources::new(cache.join("sources"))).planned(sources),
        leak_checks: LeakChecks::new(cache.join("leak-checks")),
        gateway: Arc::new(gateway),
        egress,
        grading: GradeOptions::default(),
        capacity,
        comparing: Comparing::default(),
        frozen: FrozenTests::new((verdicts == Grading::Once).then(|| cache.join("frozen"))),
        verdicts: match verdicts {
            Grading::Once => Some(Verdicts::at(cache.join("verdicts"))),
            Grading::Anew => None,
        },
        unreliable: flakes.unreliable,
        flaky: flakes.policy,
        wide: granted.wide,
        harbor_shared: granted.harbor_shared,
        outside: OutsideLimits {
            file_bytes: resume.outside_file_mb.saturating_mul(1 << 20),
            bytes: resume.outside_mb.saturating_mul(1 << 20),
            ..OutsideLimits::default()
        },
        faults: FaultPolicy::shipped()?,
        halts: Halts::default(),
        replay,
        progress,
        cancel: Cancel::default(),
    })
}
