//! The back end.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use proctor_sandbox_api::{Backend, Enforcement, LayerSpec, Prepared, Room, RoomSpec, Sandbox};
use proctor_types::{Fault, Layer, SandboxSpec};
use proctor_wire::{IdMap, RoomPlan, Upper};
use rustix::process::{getegid, geteuid};
use tokio::task::spawn_blocking;

use crate::{
    agent,
    base::{self, Ground, raw},
    cgroup::{self, Groups},
    launch::launch,
    layer::{self, Building},
    registry::{self, Entry},
    sandbox::{Held, NativeSandbox},
    setup,
};

/// Bytes of `/dev/shm`, as Docker has it.
const SHM_BYTES: u64 = 64 << 20;

/// Native rooms, with a cache of environments.
pub struct Native(Arc<Inner>);

struct Inner {
    cache: PathBuf,
    agent: PathBuf,
    groups: Groups,
    entry: Arc<Entry>,
    rooms: AtomicU64,
}

impl Native {
    /// `cache_dir` is made where it is missing; it holds layers, so it should outlive the run, and
    /// must be on a file system of the machine's own (not a network's: overlays need it).
    ///
    /// # Errors
    /// A fault of the sandbox where the folder cannot be used or this build carries no agent.
    pub fn new(cache_dir: PathBuf) -> Result<Self, Fault> {
        fs::create_dir_all(&cache_dir).map_err(|error| cache_fault(&cache_dir, &error))?;
        let agent = agent::install(&cache_dir)?;
        Self::with_agent(cache_dir, agent)
    }

    /// As [`Native::new`], with an agent of one's own: an absolute path.
    ///
    /// # Errors
    /// A fault of the sandbox where the folder cannot be used.
    pub fn with_agent(cache_dir: PathBuf, agent: PathBuf) -> Result<Self, Fault> {
        let inner = || -> io::Result<Inner> {
            fs::create_dir_all(cache_dir.join("stage"))?;
            let cache = fs::canonicalize(&cache_dir)?;
            let entry = Arc::new(Entry::make(&cache)?);
            let groups = Groups::find(&entry);
            Ok(Inner { cache, agent, groups, entry, rooms: AtomicU64::new(0) })
        };
        Ok(Self(Arc::new(inner().map_err(|error| cache_fault(&cache_dir, &error))?)))
    }
}

fn cache_fault(cache: &Path, error: &io::Error) -> Fault {
    Fault::new(Layer::Sandbox, format!("use the cache folder {}: {error}", cache.display()))
        .mend("choose a writable folder")
}

#[async_trait]
impl Backend for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    async fn prepare(&self, spec: &LayerSpec) -> Result<Prepared, Fault> {
        let inner = Arc::clone(&self.0);
        let base = spec.base.clone();
        let cache = inner.cache.clone();
        let ground = blocking(move || base::ground(&cache, &base)).await?;
        let digest = layer::digest(&ground, spec);
        let folder = layer::folder(&inner.cache, &digest);
        let prepared = |built| Prepared {
            digest: digest.clone(),
            handle: folder.display().to_string(),
            built,
        };
        if layer::read(&folder).is_ok() {
            return Ok(prepared(false));
        }
        let (cache, name) = (inner.cache.clone(), digest.clone());
        let _lock = blocking(move || {
            layer::lock(&cache, &name).map_err(|error| cache_fault(&cache, &error))
        })
        .await?;
        // Somebody may have built it while this one waited.
        if layer::read(&folder).is_ok() {
            return Ok(prepared(false));
        }
        inner.build(&ground, &digest, spec).await?;
        Ok(prepared(true))
    }

    async fn open(&self, spec: &RoomSpec) -> Result<Box<dyn Sandbox>, Fault> {
        let folder = PathBuf::from(&spec.environment.handle);
        let record = layer::read(&folder).map_err(|error| {
            Fault::new(Layer::Environment, format!("the layer {}: {error}", folder.display()))
                .mend("prepare the environment again")
        })?;
        let lower = vec![folder.join("tree"), record.ground.folder.clone()];
        let sandbox = self.0.open(&record.ground, lower, Kind::Trial(&spec.limits)).await;
        let sandbox = sandbox.map_err(|fault| fault.context(&spec.purpose))?;
        Ok(Box::new(sandbox))
    }

    async fn sweep(&self) -> Result<Vec<String>, Fault> {
        let cache = self.0.cache.clone();
        blocking(move || sweep(&cache).map_err(|error| cache_fault(&cache, &error))).await
    }
}

/// What a room is for.
enum Kind<'a> {
    Trial(&'a SandboxSpec),
    /// Set-up of a layer: with network, writing to the layer's own tree.
    Build(&'a Building, Vec<proctor_wire::Bind>),
}

impl Inner {
    async fn build(
        self: &Arc<Self>,
        ground: &Ground,
        digest: &str,
        spec: &LayerSpec,
    ) -> Result<(), Fault> {
        let (inner, owned, name) = (Arc::clone(self), spec.clone(), digest.to_owned());
        let under = ground.clone();
        let building = blocking(move || {
            Building::begin(&inner.cache, inner.entry.name(), &name, &under, &owned)
        })
        .await?;
        if !spec.setup.is_empty() {
            let lent = setup::lent(&building.lent(), &spec.base).map_err(|error| {
                Fault::new(Layer::Environment, format!("prepare the set-up: {error}"))
            })?;
            let lower = vec![ground.folder.clone()];
            let mut sandbox =
                self.open(ground, lower, Kind::Build(&building, lent.clone())).await?;
            let ran = setup::run(sandbox.room(), spec).await;
            let closed = sandbox.close().await;
            ran.and(closed)?;
            setup::sweep_mount_points(&building.tree(), &lent).map_err(|error| {
                Fault::new(Layer::Environment, format!("clean the layer: {error}"))
            })?;
        }
        let (place, ground) = (layer::folder(&self.cache, digest), ground.clone());
        blocking(move || building.finish(&place, ground)).await
    }

    async fn open(
        &self,
        ground: &Ground,
        lower: Vec<PathBuf>,
        kind: Kind<'_>,
    ) -> Result<NativeSandbox, Fault> {
        let number = self.rooms.fetch_add(1, Ordering::Relaxed);
        let limits = match &kind {
            Kind::Trial(limits) => Some(*limits),
            Kind::Build(..) => None,
        };
        let mut group = self.groups.make(&format!("room-{number}"), limits);
        let (mut binds, covers) = if ground.host { base::host_views() } else { Default::default() };
        let root = geteuid().is_root();
        let mut enforcement = Enforcement::default();
        let mut process_limit = None;
        let upper = match &kind {
            Kind::Build(building, _) => {
                Upper::Folder { upper: raw(&building.tree()), work: raw(&building.work()) }
            }
            Kind::Trial(limits) => {
                enforcement.not_enforced.append(&mut group.missing);
                if !group.has_pids && !root {
                    // Counted per user namespace, so for this room alone; the machine's root is
                    // exempt from it.
                    process_limit = Some(limits.processes);
                    enforcement.not_enforced.retain(|what| !what.starts_with("processes:"));
                }
                Upper::Memory { bytes: disk_bytes(limits, group.has_memory, &mut enforcement) }
            }
        };
        let network = matches!(kind, Kind::Build(..));
        if let Kind::Build(_, lent) = kind {
            binds.extend(lent);
        }
        let plan = RoomPlan {
            cgroups: group.procs.iter().map(|path| raw(path)).collect(),
            ids: if root {
                IdMap::Identity
            } else {
                IdMap::Single { uid: geteuid().as_raw(), gid: getegid().as_raw() }
            },
            network,
            stage: raw(&self.cache.join("stage")),
            lower: lower.iter().map(|path| raw(path)).collect(),
            upper,
            binds,
            covers,
            hostname: "room".to_owned(),
            shm_bytes: SHM_BYTES,
            process_limit,
        };
        let launched = match launch(&self.agent, &plan).await {
            Ok(launched) => launched,
            Err(fault) => {
                let _ = spawn_blocking(move || group.remove()).await;
                return Err(fault);
            }
        };
        enforcement.not_enforced.extend(launched.notes);
        let held = Held {
            child: launched.child,
            lifeline: launched.lifeline,
            group,
            owner: Arc::clone(&self.entry),
        };
        let (reader, writer) = launched.stream.into_split();
        match Room::connect(reader, writer).await {
            Ok(room) => Ok(NativeSandbox::new(room, enforcement, held)),
            Err(error) => {
                let _ = held.destroy().await;
                Err(error.fault("shake hands with the room's agent"))
            }
        }
    }
}

/// The size of the room's writable memory. Where memory is limited too, files must leave some of it
/// to processes: a full disk should say so, rather than have the kernel kill whoever writes.
fn disk_bytes(limits: &SandboxSpec, memory_is_held: bool, said: &mut Enforcement) -> u64 {
    let most = limits.memory_mb * 7 / 8;
    if memory_is_held && limits.disk_mb > most {
        said.not_enforced.push(format!(
            "written files: {most} MiB in place of {}, since they count as memory in a native room",
            limits.disk_mb
        ));
        most << 20
    } else {
        limits.disk_mb << 20
    }
}

fn sweep(cache: &Path) -> io::Result<Vec<String>> {
    let mut out = Vec::new();
    for dead in registry::dead(cache)? {
        for group in &dead.groups {
            if group.exists() {
                cgroup::remove(group)?;
                out.push(group.display().to_string());
            }
        }
        out.extend(layer::sweep(cache, &dead.name)?);
        dead.forget()?;
    }
    Ok(out)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Fault::new(Layer::Sandbox, format!("a task died: {error}"))))
}
