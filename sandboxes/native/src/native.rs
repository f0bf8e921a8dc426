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
    absent::{self, HostOverlay},
    setup_lines,
};
use proctor_sandbox_api::{
    Backend, Base, CacheEntry, Enforcement, LayerSpec, PreparedEnvironment, Sandbox, SandboxHandle,
    SandboxRequest, find_hint, wire::HiddenPaths,
};
use proctor_types::{Fault, FaultCause, FaultLayer, ImageSettings, SandboxSpec};
use proctor_wire::{Defense, SandboxLayout, UpperLayer};
use tokio::{
    sync::{Mutex as AsyncMutex, Semaphore},
    task::spawn_blocking,
};

use crate::{
    agent,
    archive::{self, ArchiveCache, ArchivePin},
    base::{self, ResolvedBase},
    cache_entries,
    cgroup::{self, GroupParents},
    ids,
    launch::launch,
    layer::{self, LayerBuild},
    mapped_removal,
    mounts::{self, to_raw_path},
    registry::{self, RegistryEntry},
    sandbox::{HostResources, KernelDiagnostics, NativeSandbox},
    setup, share,
};

/// Maximum number of sandboxes to create concurrently. More of them would only compete for the same
/// CPUs.
const MAX_CONCURRENT_LAUNCHES: usize = 8;

/// The native back end, with a cache of environments.
pub struct Native(Arc<NativeState>);

struct NativeState {
    cache: PathBuf,
    agent: PathBuf,
    group_parents: GroupParents,
    registry_entry: Arc<RegistryEntry>,
    sandbox_count: AtomicU64,
    /// Limits how many sandboxes are created concurrently.
    launch_slots: Semaphore,
    /// Locks for the layers that this process is building or waiting for, by digest.
    build_mutexes: Mutex<BTreeMap<String, Weak<AsyncMutex<()>>>>,
    archive_cache: ArchiveCache,
    disabled_defenses: Vec<Defense>,
}

impl Native {
    /// Creates the back end. `cache_dir` is the cache for layers, which should outlive the run. The
    /// directory is created if missing. It must be on a local file system, because overlays require
    /// one.
    ///
    /// # Errors
    /// Returns a sandbox fault if the directory cannot be used or this build contains no agent.
    pub fn new(cache_dir: PathBuf) -> Result<Self, Fault> {
        fs::create_dir_all(&cache_dir).map_err(|error| cache_fault(&cache_dir, &error))?;
        let agent = agent::install(&cache_dir)?;
        Self::with_agent(cache_dir, agent)
    }

    /// Like [`Native::new`], but all sandboxes have the given defenses disabled and list them as
    /// not enforced. Tests use this to show that an attack succeeds without its defense.
    ///
    /// # Errors
    /// See [`Native::new`].
    #[doc(hidden)]
    pub fn new_without_defenses(cache_dir: PathBuf, defenses: &[Defense]) -> Result<Self, Fault> {
        let mut native = Self::new(cache_dir)?;
        if let Some(inner) = Arc::get_mut(&mut native.0) {
            inner.disabled_defenses = defenses.to_vec();
        }
        Ok(native)
    }

    /// Sets the maximum total size of unpacked archives in the cache, in bytes. The default is half
    /// of the cache's file system. The least recently used archives are removed first. Archives in
    /// use are kept.
    #[must_use]
    pub fn with_archive_budget(mut self, bytes: u64) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.archive_cache.set_budget(bytes);
        }
        self
    }

    /// Like [`Native::new`], but uses the agent at the given absolute path.
    ///
    /// # Errors
    /// Returns a sandbox fault if the directory cannot be used.
    pub fn with_agent(cache_dir: PathBuf, agent: PathBuf) -> Result<Self, Fault> {
        let inner = || -> io::Result<NativeState> {
            fs::create_dir_all(cache_dir.join("stage"))?;
            let cache = fs::canonicalize(&cache_dir)?;
            mapped_removal::set_agent(&agent);
            let entry = Arc::new(RegistryEntry::create(&cache)?);
            let groups = GroupParents::find(&entry);
            Ok(NativeState {
                archive_cache: ArchiveCache::new(&cache),
                cache,
                agent,
                group_parents: groups,
                registry_entry: entry,
                sandbox_count: AtomicU64::new(0),
                launch_slots: Semaphore::new(MAX_CONCURRENT_LAUNCHES),
                build_mutexes: Mutex::default(),
                disabled_defenses: Vec::new(),
            })
        };
        Ok(Self(Arc::new(inner().map_err(|error| cache_fault(&cache_dir, &error))?)))
    }
}

fn cache_fault(cache: &Path, error: &io::Error) -> Fault {
    Fault::new(
        FaultLayer::Sandbox,
        format!("cannot use the cache folder {}: {error}", cache.display()),
    )
    .cause(FaultCause::from_io_error(error))
    .hint("choose a writable folder")
}

#[async_trait]
impl Backend for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn agent_digest(&self) -> String {
        agent_digest().to_owned()
    }

    async fn image_settings(&self, base: &Base) -> Result<ImageSettings, Fault> {
        let _archive = self.0.ensure_unpacked(base).await?;
        let (cache, base) = (self.0.cache.clone(), base.clone());
        run_blocking(move || base::image_settings(&cache, &base)).await
    }

    async fn prepare(&self, spec: &LayerSpec) -> Result<PreparedEnvironment, Fault> {
        let inner = Arc::clone(&self.0);
        let _archive = inner.ensure_unpacked(&spec.base).await?;
        let base = spec.base.clone();
        let cache = inner.cache.clone();
        let base = run_blocking(move || base::resolve(&cache, &base)).await?;
        let digest = layer::digest(&base, spec);
        let folder = layer::layer_folder(&inner.cache, &digest);
        let prepared = |built| PreparedEnvironment {
            digest: digest.clone(),
            base: base.digest.clone(),
            image: None,
            backend_id: folder.display().to_string(),
            was_built: built,
            hidden_paths: HiddenPaths::default(),
        };
        if layer::read_complete_record(&folder).is_ok() {
            return Ok(prepared(false));
        }
        // Tasks in this process first wait for a mutex, so that a thousand tasks open only one lock
        // file.
        let turn = inner.build_mutex(&digest);
        let _turn = turn.lock().await;
        if layer::read_complete_record(&folder).is_ok() {
            return Ok(prepared(false));
        }
        let lock = layer::lock_layer(&inner.cache, &digest).await;
        let _lock = lock.map_err(|error| cache_fault(&inner.cache, &error))?;
        // While this process waited, another one may have built the layer.
        if layer::read_complete_record(&folder).is_ok() {
            return Ok(prepared(false));
        }
        inner.build_layer(&base, &digest, spec).await?;
        Ok(prepared(true))
    }

    async fn open(&self, request: &SandboxRequest) -> Result<Box<dyn Sandbox>, Fault> {
        let folder = PathBuf::from(&request.environment.backend_id);
        let gone = |error: io::Error| {
            Fault::new(
                FaultLayer::Environment,
                format!("cannot use the layer {}: {error}", folder.display()),
            )
            .cause(FaultCause::Gone)
            .hint("the layer was removed during the run; the next try rebuilds it")
        };
        let record = layer::read_record(&folder).map_err(gone)?;
        let archive = self.0.pin_base_archive(&record.base).await?;
        layer::check_complete(&folder, &record).map_err(gone)?;
        let lower = vec![folder.join("tree"), record.base.folder.clone()];
        let absent = request.environment.hidden_paths.clone();
        let cuts = match record.base.host && !absent.paths.is_empty() {
            true => self.0.prepare_overlays(absent).await?,
            false => Vec::new(),
        };
        let extra = mounts::mount_binds(&request.mounts)
            .map_err(|fault| fault.context(&request.purpose))?;
        let sandbox = self
            .0
            .open_sandbox(&record.base, lower, Purpose::Trial(&request.limits, cuts, extra))
            .await;
        let mut sandbox = sandbox.map_err(|fault| fault.context(&request.purpose))?;
        sandbox.set_archive_pin(archive);
        sandbox.handle().set_image_env(archive::image_settings(&record.base.folder).env);
        Ok(Box::new(sandbox))
    }

    async fn cache_entries(&self) -> Result<Vec<CacheEntry>, Fault> {
        let cache = self.0.cache.clone();
        run_blocking(move || {
            cache_entries::list(&cache).map_err(|error| cache_fault(&cache, &error))
        })
        .await
    }

    async fn discard(&self, entry: &CacheEntry) -> Result<bool, Fault> {
        let (cache, kept) = (self.0.cache.clone(), entry.clone());
        let removed = move || {
            cache_entries::remove(&cache, &kept).map_err(|error| {
                Fault::new(
                    FaultLayer::Sandbox,
                    format!("cannot remove {}: {error}", kept.backend_id),
                )
            })
        };
        run_blocking(removed).await.map(|()| true)
    }

    async fn check_availability(&self) -> Result<(), Fault> {
        let agent = &self.0.agent;
        if agent.is_file() && self.0.cache.join("stage").is_dir() {
            return Ok(());
        }
        let what = format!("{} was removed during the run", self.0.cache.display());
        Err(Fault::new(FaultLayer::Sandbox, what)
            .cause(FaultCause::Missing)
            .hint("run `proctor resume` to recreate the cache folder"))
    }

    async fn sweep(&self) -> Result<Vec<String>, Fault> {
        let cache = self.0.cache.clone();
        run_blocking(move || sweep(&cache).map_err(|error| cache_fault(&cache, &error))).await
    }
}

/// What a sandbox is for.
enum Purpose<'a> {
    /// For a trial. Contains its limits, the overlays that hide entries of host directories, and
    /// the trial's mounts.
    Trial(&'a SandboxSpec, Vec<HostOverlay>, Vec<proctor_wire::BindMount>),
    /// For the setup of a layer. The sandbox has network access and writes to the layer's own
    /// tree.
    Build(&'a LayerBuild, Vec<proctor_wire::BindMount>),
}

impl NativeState {
    /// Returns the mutex for building a layer. All tasks in this process that need the layer share
    /// it.
    fn build_mutex(&self, digest: &str) -> Arc<AsyncMutex<()>> {
        let mut building = self.build_mutexes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = building.get(digest).and_then(Weak::upgrade) {
            return turn;
        }
        building.retain(|_, turn| turn.strong_count() > 0);
        let turn: Arc<AsyncMutex<()>> = Arc::default();
        building.insert(digest.to_owned(), Arc::downgrade(&turn));
        turn
    }

    /// Makes sure that a base's archive is unpacked, and prevents its removal until the pin is
    /// dropped. Other processes that need the archive wait, so it is unpacked only once. Returns
    /// `None` if the base is not an archive.
    async fn ensure_unpacked(
        self: &Arc<Self>,
        base: &Base,
    ) -> Result<Option<Arc<ArchivePin>>, Fault> {
        let Base::Archive(archive) = base else { return Ok(None) };
        if archive::is_unpacked(&self.cache, archive)
            && let Some(name) = archive::cached_name(&self.cache, archive)
            && let Some(hold) = self.pin_archive(&name).await?
        {
            return Ok(Some(hold));
        }
        let turn = self.build_mutex(&archive.display().to_string());
        let _turn = turn.lock().await;
        let lock = archive::lock_archive(&self.cache, archive).await;
        let _lock = lock.map_err(|error| cache_fault(&self.cache, &error))?;
        let (inner, archive) = (Arc::clone(self), archive.to_owned());
        run_blocking(move || inner.unpack(archive)).await.map(Some)
    }

    /// Unpacks an archive and returns a pin on it. Blocking. The caller must hold the lock on the
    /// archive.
    fn unpack(&self, archive: PathBuf) -> Result<Arc<ArchivePin>, Fault> {
        let Self { cache, archive_cache: room, .. } = self;
        let wrong = |error: io::Error| cache_fault(cache, &error);
        archive::sweep(cache, &archive).map_err(wrong)?;
        let name = archive::archive_name(cache, &archive);
        let name = name.map_err(|error| base::archive_fault(&archive, &error))?;
        // Pin the archive first, so that another process that makes room does not remove it.
        let hold = room.pin(&name).map_err(wrong)?;
        if !archive::is_unpacked(cache, &archive) {
            // The unpacked archive needs at least as much space as the archive itself.
            let least = fs::metadata(&archive).map_or(0, |found| found.len());
            room.make_room(least).map_err(wrong)?;
        }
        base::resolve(cache, &Base::Archive(archive))?;
        room.touch(&name).map_err(wrong)?;
        room.make_room(0).map_err(wrong)?;
        Ok(hold)
    }

    /// Prevents an unpacked archive from being removed. Returns `None` if it does not exist.
    async fn pin_archive(self: &Arc<Self>, name: &str) -> Result<Option<Arc<ArchivePin>>, Fault> {
        let (inner, name) = (Arc::clone(self), name.to_owned());
        run_blocking(move || {
            let held = || -> io::Result<Option<Arc<ArchivePin>>> {
                let hold = inner.archive_cache.pin(&name)?;
                Ok(inner.archive_cache.touch(&name)?.then_some(hold))
            };
            held().map_err(|error| cache_fault(&inner.cache, &error))
        })
        .await
    }

    /// Prevents the archive of a layer's base from being removed. If it was already removed to make
    /// room, unpacks it again. Returns `None` if the base is not an archive or if the archive can't
    /// be restored.
    async fn pin_base_archive(
        self: &Arc<Self>,
        base: &ResolvedBase,
    ) -> Result<Option<Arc<ArchivePin>>, Fault> {
        let Some(name) = archive::name_from_folder(&base.folder) else { return Ok(None) };
        if let Some(hold) = self.pin_archive(name).await? {
            return Ok(Some(hold));
        }
        match &base.archive {
            Some(archive) => self.ensure_unpacked(&Base::Archive(archive.clone())).await,
            None => Ok(None),
        }
    }

    async fn prepare_overlays(&self, hidden_paths: HiddenPaths) -> Result<Vec<HostOverlay>, Fault> {
        let store = self.cache.join("absent");
        let made = move || {
            absent::prepare_overlays(&store, &hidden_paths).map_err(|error| {
                Fault::new(
                    FaultLayer::Sandbox,
                    format!("cannot hide host paths from the sandbox: {error}"),
                )
            })
        };
        run_blocking(made).await
    }

    async fn build_layer(
        self: &Arc<Self>,
        base: &ResolvedBase,
        digest: &str,
        spec: &LayerSpec,
    ) -> Result<(), Fault> {
        let (inner, owned, name) = (Arc::clone(self), spec.clone(), digest.to_owned());
        let under = base.clone();
        let building = run_blocking(move || {
            LayerBuild::begin(&inner.cache, inner.registry_entry.name(), &name, &under, &owned)
        })
        .await?;
        if !spec.setup.is_empty() {
            let extra =
                setup::setup_binds(&building.setup_files(), &spec.base).map_err(|error| {
                    Fault::new(
                        FaultLayer::Environment,
                        format!("cannot prepare the setup environment: {error}"),
                    )
                    .cause(FaultCause::from_io_error(&error))
                })?;
            let lower = vec![base.folder.clone()];
            let mut sandbox =
                self.open_sandbox(base, lower, Purpose::Build(&building, extra.clone())).await?;
            let ran = setup_lines::run(sandbox.handle(), spec).await;
            let closed = sandbox.close().await;
            ran.and(closed).map_err(|fault| with_one_user_hint(fault, sandbox.enforcement()))?;
            setup::sweep_mount_points(&building.tree(), &extra).map_err(|error| {
                Fault::new(
                    FaultLayer::Environment,
                    format!("cannot remove leftover mount points from the layer: {error}"),
                )
                .cause(FaultCause::from_io_error(&error))
            })?;
        }
        let (place, base) = (layer::layer_folder(&self.cache, digest), base.clone());
        run_blocking(move || building.finish(&place, base)).await
    }

    async fn open_sandbox(
        &self,
        base: &ResolvedBase,
        lower: Vec<PathBuf>,
        purpose: Purpose<'_>,
    ) -> Result<NativeSandbox, Fault> {
        let number = self.sandbox_count.fetch_add(1, Ordering::Relaxed);
        let limits = match &purpose {
            Purpose::Trial(limits, ..) => Some(*limits),
            Purpose::Build(..) => None,
        };
        let mut group = self.group_parents.create_group(
            &format!("sandbox-{number}"),
            limits,
            &self.registry_entry,
        );
        let (mut binds, covers) =
            if base.host { mounts::host_mounts() } else { Default::default() };
        if let Purpose::Trial(_, cuts, extra) = &purpose {
            mounts::add_overlays(&mut binds, cuts);
            binds.extend(extra.iter().cloned());
        }
        let mut enforcement = Enforcement::default();
        let mut process_limit = None;
        let (map, one_user) = ids::id_map();
        enforcement.not_enforced.extend(one_user);
        let (ids, upper, shm_bytes) = match &purpose {
            Purpose::Build(building, _) => {
                let upper = UpperLayer::Folder {
                    upper: to_raw_path(&building.tree()),
                    work: to_raw_path(&building.work_folder()),
                };
                (map, upper, 64 << 20)
            }
            Purpose::Trial(limits, ..) => {
                enforcement.not_enforced.append(&mut group.not_enforced);
                if !group.has_pids && !ids::is_machine_root() {
                    // The kernel counts processes per user namespace, so this limit applies only to
                    // this sandbox. It has no effect if Proctor runs as root on the host.
                    process_limit = Some(limits.processes + cgroup::AGENT_PROCESSES);
                    enforcement.not_enforced.retain(|what| !what.starts_with("processes:"));
                }
                enforcement.not_enforced.extend(base.missing.iter().cloned());
                let share = share::divide_memory(limits, group.has_memory, &mut enforcement);
                let limited = !self.disabled_defenses.contains(&Defense::Inodes);
                let inodes = if limited { share.inodes } else { 0 };
                (map, UpperLayer::Memory { bytes: share.disk_bytes, inodes }, share.shm_bytes)
            }
        };
        let network = matches!(purpose, Purpose::Build(..));
        if let Purpose::Build(_, extra) = purpose {
            binds.extend(extra);
        }
        let plan = SandboxLayout {
            cgroups: group.procs_files.iter().map(|path| to_raw_path(path)).collect(),
            ids,
            network,
            stage: to_raw_path(&self.cache.join("stage")),
            lower: lower.iter().map(|path| to_raw_path(path)).collect(),
            upper,
            binds,
            covers,
            hostname: "sandbox".to_owned(),
            shm_bytes,
            process_limit,
            without: self.disabled_defenses.clone(),
        };
        // Creating a sandbox briefly needs several descriptors, so limit how many are created at
        // once.
        let begun = Instant::now();
        let _turn = self.launch_slots.acquire().await;
        let waited = begun.elapsed();
        let launched = match launch(&self.agent, &plan).await {
            Ok(launched) => launched,
            Err(fault) => {
                let _ = spawn_blocking(move || group.remove()).await;
                return Err(fault);
            }
        };
        enforcement.not_enforced.extend(launched.notes);
        let held = HostResources { helper: launched.helper, group, archive_pin: None };
        let (reader, writer) = launched.stream.into_split();
        match SandboxHandle::connect(reader, writer).await {
            Ok(handle) => {
                let memory = held.group.memory_events();
                handle.set_diagnostics(Arc::new(KernelDiagnostics { memory_events: memory }));
                Ok(NativeSandbox::new(handle, enforcement, held, waited))
            }
            Err(error) => {
                let _ = held.destroy().await;
                Err(error.to_fault("cannot connect to the sandbox agent"))
            }
        }
    }
}

/// Errors from the kernel when a program needs a second user and the sandbox has only one.
const MISSING_USER_ERRORS: [&str; 2] = ["Invalid argument", "Operation not permitted"];

/// If the sandbox had only one user, adds a hint with the usual cause to a setup command's fault.
fn with_one_user_hint(fault: Fault, enforcement: &Enforcement) -> Fault {
    let mut entries = enforcement.not_enforced.iter();
    let one_user = entries.find(|entry| entry.starts_with(ids::ONE_USER_PREFIX));
    match one_user {
        Some(entry) if MISSING_USER_ERRORS.iter().any(|words| fault.what.contains(words)) => {
            let repair = find_hint(entry).unwrap_or_default();
            fault.hint(format!(
                "programs that use a second user, such as `chown`, need an \
                 id range ({entry}): {repair}, or run as root"
            ))
        }
        _ => fault,
    }
}

fn sweep(cache: &Path) -> io::Result<Vec<String>> {
    // Also sweep the groups of runtimes with other caches, because those caches may never be used
    // again. The groups' locks show which runtimes are dead. The lists of groups in this cache are
    // not used for this, because the cache may be a copy.
    let groups = cgroup::sweep();
    let mut out: Vec<String> = groups.iter().map(|group| group.display().to_string()).collect();
    for dead in registry::dead_entries(cache)? {
        out.extend(layer::sweep(cache, &dead.name)?);
        // Remove the entry only once its groups are gone. Otherwise, nothing would refer to them
        // anymore.
        if dead.notes()?.iter().all(|group| !Path::new(group).exists()) {
            dead.remove_file()?;
        }
    }
    Ok(out)
}

async fn run_blocking<T: Send + 'static>(
    operation: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    spawn_blocking(operation).await.unwrap_or_else(|error| {
        Err(Fault::new(FaultLayer::Sandbox, format!("a background task failed: {error}")))
    })
}
