//! The native back end.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use async_trait::async_trait;
use proctor_embedded_agent::agent_digest;
use proctor_host::{
    absent::{self, Cut},
    setup_lines,
};
use proctor_sandbox_api::{
    Backend, Base, Enforcement, Kept, LayerSpec, Prepared, Sandbox, SandboxHandle, SandboxRequest,
    hint_of, wire::Absent,
};
use proctor_types::{Cause, Fault, ImageSettings, Layer, SandboxSpec};
use proctor_wire::{Defence, SandboxLayout, Upper};
use tokio::{
    sync::{Mutex as AsyncMutex, Semaphore},
    task::spawn_blocking,
};

use crate::{
    agent,
    archive::{self, Hold, Room},
    base::{self, ResolvedBase, raw},
    cgroup::{self, Groups},
    ids, kept,
    launch::launch,
    layer::{self, Building},
    mapped,
    registry::{self, Entry},
    sandbox::{Held, Kernel, NativeSandbox},
    setup, share,
};

/// Number of sandboxes created concurrently. More would only compete for the same CPUs.
const AT_ONCE: usize = 8;

/// Native sandboxes, with a cache of environments.
pub struct Native(Arc<Inner>);

struct Inner {
    cache: PathBuf,
    agent: PathBuf,
    groups: Groups,
    entry: Arc<Entry>,
    sandboxes: AtomicU64,
    /// Limits concurrent creation of sandboxes.
    opening: Semaphore,
    /// The layers that this process is building or waiting for, by digest.
    building: Mutex<BTreeMap<String, Weak<AsyncMutex<()>>>>,
    room: Room,
    without: Vec<Defence>,
}

impl Native {
    /// Creates the back end with a cache of layers in `cache_dir`, which is created if missing. It
    /// should outlive the run and must be on a local file system, because overlays require one.
    ///
    /// # Errors
    /// A sandbox fault if the directory cannot be used or this build contains no agent.
    pub fn new(cache_dir: PathBuf) -> Result<Self, Fault> {
        fs::create_dir_all(&cache_dir).map_err(|error| cache_fault(&cache_dir, &error))?;
        let agent = agent::install(&cache_dir)?;
        Self::with_agent(cache_dir, agent)
    }

    /// Like [`Native::new`], but sandboxes lack these defences. Tests use it to show that an attack
    /// succeeds without its defence. The sandboxes list the defences as not enforced.
    ///
    /// # Errors
    /// See [`Native::new`].
    #[doc(hidden)]
    pub fn without(cache_dir: PathBuf, defences: &[Defence]) -> Result<Self, Fault> {
        let mut native = Self::new(cache_dir)?;
        if let Some(inner) = Arc::get_mut(&mut native.0) {
            inner.without = defences.to_vec();
        }
        Ok(native)
    }

    /// Sets the maximum bytes of unpacked archives in the cache. Defaults to half of its file
    /// system. The least recently used archives are removed first. Archives in use are kept.
    #[must_use]
    pub fn with_archive_budget(mut self, bytes: u64) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.room.set_budget(bytes);
        }
        self
    }

    /// Like [`Native::new`], with another agent at an absolute path.
    ///
    /// # Errors
    /// A sandbox fault if the directory cannot be used.
    pub fn with_agent(cache_dir: PathBuf, agent: PathBuf) -> Result<Self, Fault> {
        let inner = || -> io::Result<Inner> {
            fs::create_dir_all(cache_dir.join("stage"))?;
            let cache = fs::canonicalize(&cache_dir)?;
            mapped::use_agent(&agent);
            let entry = Arc::new(Entry::make(&cache)?);
            let groups = Groups::find(&entry);
            Ok(Inner {
                room: Room::of(&cache),
                cache,
                agent,
                groups,
                entry,
                sandboxes: AtomicU64::new(0),
                opening: Semaphore::new(AT_ONCE),
                building: Mutex::default(),
                without: Vec::new(),
            })
        };
        Ok(Self(Arc::new(inner().map_err(|error| cache_fault(&cache_dir, &error))?)))
    }
}

fn cache_fault(cache: &Path, error: &io::Error) -> Fault {
    Fault::new(Layer::Sandbox, format!("cannot use the cache folder {}: {error}", cache.display()))
        .cause(Cause::of_io(error))
        .hint("choose a writable folder")
}

#[async_trait]
impl Backend for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn agent(&self) -> String {
        agent_digest().to_owned()
    }

    async fn image_settings(&self, base: &Base) -> Result<ImageSettings, Fault> {
        let _archive = self.0.unpacked(base).await?;
        let (cache, base) = (self.0.cache.clone(), base.clone());
        blocking(move || base::settings(&cache, &base)).await
    }

    async fn prepare(&self, spec: &LayerSpec) -> Result<Prepared, Fault> {
        let inner = Arc::clone(&self.0);
        let _archive = inner.unpacked(&spec.base).await?;
        let base = spec.base.clone();
        let cache = inner.cache.clone();
        let base = blocking(move || base::base(&cache, &base)).await?;
        let digest = layer::digest(&base, spec);
        let folder = layer::folder(&inner.cache, &digest);
        let prepared = |built| Prepared {
            digest: digest.clone(),
            base: base.digest.clone(),
            image: None,
            handle: folder.display().to_string(),
            built,
            absent: Absent::default(),
        };
        if layer::read(&folder).is_ok() {
            return Ok(prepared(false));
        }
        // Tasks of this process queue for a mutex first, so that a thousand of them open only one
        // lock file.
        let turn = inner.turn(&digest);
        let _turn = turn.lock().await;
        if layer::read(&folder).is_ok() {
            return Ok(prepared(false));
        }
        let lock = layer::lock(&inner.cache, &digest).await;
        let _lock = lock.map_err(|error| cache_fault(&inner.cache, &error))?;
        // Another process may have built the layer while this one waited.
        if layer::read(&folder).is_ok() {
            return Ok(prepared(false));
        }
        inner.build(&base, &digest, spec).await?;
        Ok(prepared(true))
    }

    async fn open(&self, spec: &SandboxRequest) -> Result<Box<dyn Sandbox>, Fault> {
        let folder = PathBuf::from(&spec.environment.handle);
        let gone = |error: io::Error| {
            Fault::new(
                Layer::Environment,
                format!("cannot use the layer {}: {error}", folder.display()),
            )
            .cause(Cause::Gone)
            .hint("it was removed during the run; the next try builds it again")
        };
        let record = layer::record(&folder).map_err(gone)?;
        let archive = self.0.archive_of(&record.base).await?;
        layer::expect_whole(&folder, &record).map_err(gone)?;
        let lower = vec![folder.join("tree"), record.base.folder.clone()];
        let absent = spec.environment.absent.clone();
        let cuts = match record.base.host && !absent.paths.is_empty() {
            true => self.0.cuts(absent).await?,
            false => Vec::new(),
        };
        let extra =
            base::mount_binds(&spec.mounts).map_err(|fault| fault.context(&spec.purpose))?;
        let sandbox =
            self.0.open(&record.base, lower, Kind::Trial(&spec.limits, cuts, extra)).await;
        let mut sandbox = sandbox.map_err(|fault| fault.context(&spec.purpose))?;
        sandbox.set_archive(archive);
        sandbox.handle().set_image_env(archive::settings(&record.base.folder).env);
        Ok(Box::new(sandbox))
    }

    async fn kept(&self) -> Result<Vec<Kept>, Fault> {
        let cache = self.0.cache.clone();
        blocking(move || kept::list(&cache).map_err(|error| cache_fault(&cache, &error))).await
    }

    async fn discard(&self, kept: &Kept) -> Result<bool, Fault> {
        let (cache, kept) = (self.0.cache.clone(), kept.clone());
        let removed = move || {
            kept::remove(&cache, &kept).map_err(|error| {
                Fault::new(Layer::Sandbox, format!("cannot remove {}: {error}", kept.handle))
            })
        };
        blocking(removed).await.map(|()| true)
    }

    async fn check(&self) -> Result<(), Fault> {
        let agent = &self.0.agent;
        if agent.is_file() && self.0.cache.join("stage").is_dir() {
            return Ok(());
        }
        let what = format!("{} was removed during the run", self.0.cache.display());
        Err(Fault::new(Layer::Sandbox, what)
            .cause(Cause::Missing)
            .hint("`proctor resume` creates the cache folder again"))
    }

    async fn sweep(&self) -> Result<Vec<String>, Fault> {
        let cache = self.0.cache.clone();
        blocking(move || sweep(&cache).map_err(|error| cache_fault(&cache, &error))).await
    }
}

/// The purpose of a sandbox.
enum Kind<'a> {
    /// With the host directories to show with hidden entries, and the mounts for the trial.
    Trial(&'a SandboxSpec, Vec<Cut>, Vec<proctor_wire::Bind>),
    /// Set-up of a layer, with a network, writing to the layer's own tree.
    Build(&'a Building, Vec<proctor_wire::Bind>),
}

impl Inner {
    /// Returns the mutex shared by all tasks of this process that need the layer.
    fn turn(&self, digest: &str) -> Arc<AsyncMutex<()>> {
        let mut building = self.building.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = building.get(digest).and_then(Weak::upgrade) {
            return turn;
        }
        building.retain(|_, turn| turn.strong_count() > 0);
        let turn: Arc<AsyncMutex<()>> = Arc::default();
        building.insert(digest.to_owned(), Arc::downgrade(&turn));
        turn
    }

    /// Unpacks a base's archive once on this machine, and prevents its removal until the hold is
    /// dropped. Other processes that need it wait instead of spending the same disk space and time.
    /// Returns `None` if the base is not an archive.
    async fn unpacked(self: &Arc<Self>, base: &Base) -> Result<Option<Arc<Hold>>, Fault> {
        let Base::Archive(archive) = base else { return Ok(None) };
        if archive::is_unpacked(&self.cache, archive)
            && let Some(name) = archive::known(&self.cache, archive)
            && let Some(hold) = self.hold(&name).await?
        {
            return Ok(Some(hold));
        }
        let turn = self.turn(&archive.display().to_string());
        let _turn = turn.lock().await;
        let lock = archive::lock(&self.cache, archive).await;
        let _lock = lock.map_err(|error| cache_fault(&self.cache, &error))?;
        let (inner, archive) = (Arc::clone(self), archive.to_owned());
        blocking(move || inner.unpack(archive)).await.map(Some)
    }

    /// Blocking. The caller has the lock on the archive.
    fn unpack(&self, archive: PathBuf) -> Result<Arc<Hold>, Fault> {
        let Self { cache, room, .. } = self;
        let wrong = |error: io::Error| cache_fault(cache, &error);
        archive::sweep(cache, &archive).map_err(wrong)?;
        let name = archive::name(cache, &archive);
        let name = name.map_err(|error| base::wrong_archive(&archive, &error))?;
        // Take the hold first, so that no other process removes the archive to make room.
        let hold = room.hold(&name).map_err(wrong)?;
        if !archive::is_unpacked(cache, &archive) {
            // The unpacked archive takes at least as much space.
            let least = fs::metadata(&archive).map_or(0, |found| found.len());
            room.make(least).map_err(wrong)?;
        }
        base::base(cache, &Base::Archive(archive))?;
        room.touch(&name).map_err(wrong)?;
        room.make(0).map_err(wrong)?;
        Ok(hold)
    }

    /// Prevents the removal of an unpacked archive. Returns `None` if it does not exist.
    async fn hold(self: &Arc<Self>, name: &str) -> Result<Option<Arc<Hold>>, Fault> {
        let (inner, name) = (Arc::clone(self), name.to_owned());
        blocking(move || {
            let held = || -> io::Result<Option<Arc<Hold>>> {
                let hold = inner.room.hold(&name)?;
                Ok(inner.room.touch(&name)?.then_some(hold))
            };
            held().map_err(|error| cache_fault(&inner.cache, &error))
        })
        .await
    }

    /// Prevents the removal of the archive of a layer's base. If the archive was removed to make
    /// room, it is unpacked again. Returns `None` if the base is not an archive or the archive
    /// can't be restored.
    async fn archive_of(self: &Arc<Self>, base: &ResolvedBase) -> Result<Option<Arc<Hold>>, Fault> {
        let Some(name) = archive::name_of(&base.folder) else { return Ok(None) };
        if let Some(hold) = self.hold(name).await? {
            return Ok(Some(hold));
        }
        match &base.archive {
            Some(archive) => self.unpacked(&Base::Archive(archive.clone())).await,
            None => Ok(None),
        }
    }

    async fn cuts(&self, absent: Absent) -> Result<Vec<Cut>, Fault> {
        let store = self.cache.join("absent");
        let made = move || {
            absent::cuts(&store, &absent).map_err(|error| {
                Fault::new(Layer::Sandbox, format!("cannot hide copies on the host: {error}"))
            })
        };
        blocking(made).await
    }

    async fn build(
        self: &Arc<Self>,
        base: &ResolvedBase,
        digest: &str,
        spec: &LayerSpec,
    ) -> Result<(), Fault> {
        let (inner, owned, name) = (Arc::clone(self), spec.clone(), digest.to_owned());
        let under = base.clone();
        let building = blocking(move || {
            Building::begin(&inner.cache, inner.entry.name(), &name, &under, &owned)
        })
        .await?;
        if !spec.setup.is_empty() {
            let extra =
                setup::setup_binds(&building.setup_files(), &spec.base).map_err(|error| {
                    Fault::new(
                        Layer::Environment,
                        format!("cannot prepare the set-up environment: {error}"),
                    )
                    .cause(Cause::of_io(&error))
                })?;
            let lower = vec![base.folder.clone()];
            let mut sandbox = self.open(base, lower, Kind::Build(&building, extra.clone())).await?;
            let ran = setup_lines::run(sandbox.handle(), spec).await;
            let closed = sandbox.close().await;
            ran.and(closed).map_err(|fault| explained(fault, sandbox.enforcement()))?;
            setup::sweep_mount_points(&building.tree(), &extra).map_err(|error| {
                Fault::new(
                    Layer::Environment,
                    format!("cannot remove leftover mount points from the layer: {error}"),
                )
                .cause(Cause::of_io(&error))
            })?;
        }
        let (place, base) = (layer::folder(&self.cache, digest), base.clone());
        blocking(move || building.finish(&place, base)).await
    }

    async fn open(
        &self,
        base: &ResolvedBase,
        lower: Vec<PathBuf>,
        kind: Kind<'_>,
    ) -> Result<NativeSandbox, Fault> {
        let number = self.sandboxes.fetch_add(1, Ordering::Relaxed);
        let limits = match &kind {
            Kind::Trial(limits, ..) => Some(*limits),
            Kind::Build(..) => None,
        };
        let mut group = self.groups.make(&format!("sandbox-{number}"), limits, &self.entry);
        let (mut binds, covers) = if base.host { base::host_views() } else { Default::default() };
        if let Kind::Trial(_, cuts, extra) = &kind {
            base::cut(&mut binds, cuts);
            binds.extend(extra.iter().cloned());
        }
        let mut enforcement = Enforcement::default();
        let mut process_limit = None;
        let (map, one_user) = ids::map();
        enforcement.not_enforced.extend(one_user);
        let (ids, upper, shm_bytes) = match &kind {
            Kind::Build(building, _) => {
                let upper =
                    Upper::Folder { upper: raw(&building.tree()), work: raw(&building.work()) };
                (map, upper, 64 << 20)
            }
            Kind::Trial(limits, ..) => {
                enforcement.not_enforced.append(&mut group.missing);
                if !group.has_pids && !ids::is_machine_root() {
                    // Counted per user namespace, so it applies only to this sandbox. The machine's
                    // root is exempt.
                    process_limit = Some(limits.processes + cgroup::OWN_PROCESSES);
                    enforcement.not_enforced.retain(|what| !what.starts_with("processes:"));
                }
                enforcement.not_enforced.extend(base.missing.iter().cloned());
                let share = share::of(limits, group.has_memory, &mut enforcement);
                let limited = !self.without.contains(&Defence::Inodes);
                let inodes = if limited { share.inodes } else { 0 };
                (map, Upper::Memory { bytes: share.disk_bytes, inodes }, share.shm_bytes)
            }
        };
        let network = matches!(kind, Kind::Build(..));
        if let Kind::Build(_, extra) = kind {
            binds.extend(extra);
        }
        let plan = SandboxLayout {
            cgroups: group.procs.iter().map(|path| raw(path)).collect(),
            ids,
            network,
            stage: raw(&self.cache.join("stage")),
            lower: lower.iter().map(|path| raw(path)).collect(),
            upper,
            binds,
            covers,
            hostname: "sandbox".to_owned(),
            shm_bytes,
            process_limit,
            without: self.without.clone(),
        };
        // Creating a sandbox briefly needs several descriptors, and their number is limited.
        let begun = Instant::now();
        let _turn = self.opening.acquire().await;
        let waited = begun.elapsed();
        let launched = match launch(&self.agent, &plan).await {
            Ok(launched) => launched,
            Err(fault) => {
                let _ = spawn_blocking(move || group.remove()).await;
                return Err(fault);
            }
        };
        enforcement.not_enforced.extend(launched.notes);
        let held = Held { helper: launched.helper, group, archive: None };
        let (reader, writer) = launched.stream.into_split();
        match SandboxHandle::connect(reader, writer).await {
            Ok(handle) => {
                let memory = held.group.memory();
                handle.set_witness(Arc::new(Kernel { memory }));
                Ok(NativeSandbox::new(handle, enforcement, held, waited))
            }
            Err(error) => {
                let _ = held.destroy().await;
                Err(error.fault("cannot connect to the sandbox agent"))
            }
        }
    }
}

/// Kernel errors of programs that need a second user in a sandbox with only one.
const NEEDS_USERS: [&str; 2] = ["Invalid argument", "Operation not permitted"];

/// Adds the usual cause to a set-up line's fault if the sandbox had only one user.
fn explained(fault: Fault, enforcement: &Enforcement) -> Fault {
    let mut entries = enforcement.not_enforced.iter();
    let one_user = entries.find(|entry| entry.starts_with(ids::ONE_USER));
    match one_user {
        Some(entry) if NEEDS_USERS.iter().any(|words| fault.what.contains(words)) => {
            let repair = hint_of(entry).unwrap_or_default();
            fault.hint(format!(
                "`chown` and other users need an id range here ({entry}): {repair}, or run as root"
            ))
        }
        _ => fault,
    }
}

fn sweep(cache: &Path) -> io::Result<Vec<String>> {
    // This includes groups of runtimes with other caches, which may never be used again. The groups
    // themselves show which runtimes are dead. A cache's list of groups is not used, because the
    // cache may be a copy.
    let groups = cgroup::sweep();
    let mut out: Vec<String> = groups.iter().map(|group| group.display().to_string()).collect();
    for dead in registry::dead(cache)? {
        out.extend(layer::sweep(cache, &dead.name)?);
        // Removing an entry too early would leave its groups without an owner.
        if dead.notes()?.iter().all(|group| !Path::new(group).exists()) {
            dead.forget()?;
        }
    }
    Ok(out)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    spawn_blocking(work).await.unwrap_or_else(|error| {
        Err(Fault::new(Layer::Sandbox, format!("a background task failed: {error}")))
    })
}
