//! Finds a task's secrets in an environment's layer. Each layer is searched once, and the findings
//! are cached by digest.

use std::{collections::BTreeMap, ffi::OsStr, fs, os::unix::ffi::OsStrExt, path::Path};

use proctor_host::host_base;
use proctor_sandbox_api::{
    SandboxError, SandboxHandle,
    wire::{EntryKind, HiddenPaths, RawPath, ScanReply, ScanRequest},
};
use proctor_types::{Fault, FaultCause, FaultLayer, Task, sha256_hex};
use serde::{Deserialize, Serialize};

use super::{
    leak::{Leak, LeakKind},
    patch_lines::patch_lines_by_file,
    policy::LeakPolicy,
    secrets::{LabeledSecrets, build_secrets, secrets_digest},
};
use crate::{
    HiddenCopies, PREPARATION,
    hidden_content::{ContentToKeep, find_named_copies, remove_hidden_content},
};

/// Maximum size in bytes of a hidden file to fingerprint.
const MAX_HIDDEN_FILE_BYTES: u64 = 4 << 20;

/// Version of the cached findings. Increment it when the findings get a new field. Layers with
/// older cached findings, which don't have that field, are then searched again.
const FINDINGS_VERSION: u32 = 2;

/// A task's hidden content in one environment. The search runs once. Its findings are used to
/// prepare every sandbox of the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerFindings {
    // Cached findings use this spelling.
    #[serde(rename = "labelled")]
    pub(super) labeled: LabeledSecrets,
    /// Leaks outside the work directory.
    pub leaks: Vec<Leak>,
    pub workdir: WorkdirFindings,
    /// Files of the environment that the test tools need. Empty if there are no leaks.
    pub tools: ToolFiles,
    pub unseen: ScanStats,
    decoys: Vec<RawPath>,
    /// Paths in the task's `hidden` list that neither exist in the environment nor are created by
    /// one of the task's patches.
    #[serde(default)]
    pub unmatched: Vec<String>,
}

/// Hidden content that remains in the work directory after the mask is applied and hidden paths
/// are removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkdirFindings {
    /// History, caches and bytecode, recognized by name.
    pub copies: Vec<RawPath>,
    pub leaks: Vec<Leak>,
}

/// Files of the environment that the test tools need.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolFiles {
    /// Files that the test tool needs to start.
    pub loaded: Vec<RawPath>,
    /// Files of packages that the test tool or one of its plugins declares as requirements.
    pub declared: Vec<RawPath>,
}

impl ToolFiles {
    /// Whether the test tool cannot start without the leak's file.
    pub fn loads_leaked_file(&self, leak: &Leak) -> bool {
        self.loaded.iter().any(|file| leak.covers(file))
    }

    /// Whether the leak's file was installed with the test tool.
    pub fn needs_leaked_file(&self, leak: &Leak) -> bool {
        self.loads_leaked_file(leak) || self.declared.iter().any(|file| leak.covers(file))
    }
}

/// Counts of files that a scan skipped, and statistics of the scan. Skipped files may contain
/// leaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanStats {
    /// Number of files and expanded streams that exceed the size limit.
    pub too_large: u64,
    /// Number of archives that are nested more deeply than the limit.
    pub too_deep: u64,
    /// Number of unreadable files and corrupt archives.
    pub unreadable: u64,
    /// Whether there were more findings than the scan reported.
    pub more: bool,
    /// Number of scanned files.
    pub files: u64,
    /// Total size of the scanned files in bytes, before any expansion.
    pub bytes: u64,
    /// Duration of the scan in milliseconds.
    pub ms: u64,
}

impl ScanStats {
    pub(super) fn add_reply(&mut self, reply: &ScanReply) {
        self.too_large += reply.too_large;
        self.too_deep += reply.too_deep;
        self.unreadable += reply.unreadable;
        self.more |= reply.more;
        self.files += reply.files;
        self.bytes += reply.bytes;
        self.ms += reply.took_us / 1000;
    }
}

impl LayerFindings {
    /// Returns the cache key for a task's findings in an environment. `environment` identifies the
    /// environment as in [`proctor_sandbox_api::PreparedEnvironment`], and `sandbox_agent`
    /// identifies the searching sandbox agent as in [`proctor_sandbox_api::Backend`].
    ///
    /// # Errors
    /// Fails if the built-in policy cannot be read.
    pub fn cache_key(task: &Task, environment: &str, sandbox_agent: &str) -> Result<String, Fault> {
        let policy = LeakPolicy::get()?.digest();
        let makers = format!("{PREPARATION} {sandbox_agent} {FINDINGS_VERSION}");
        // The findings depend on the test tools, which these fields determine.
        let tools = serde_json::json!([task.test_command, task.env, task.user]);
        let text = format!("{policy} {makers} {environment} {tools} {}", secrets_digest(task));
        Ok(sha256_hex(text.as_bytes()))
    }

    /// Reads cached findings. Returns `None` if they do not exist or cannot be read.
    pub fn read(folder: &Path, key: &str) -> Option<Self> {
        let text =
            proctor_files::read_regular_file(&folder.join(key).with_extension("json")).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Writes the findings to the cache. They contain paths and hashes, but no content.
    ///
    /// # Errors
    /// Fails if the directory cannot be written.
    pub fn write(&self, folder: &Path, key: &str) -> Result<(), Fault> {
        let write = || -> std::io::Result<()> {
            let text = serde_json::to_vec(self)?;
            fs::create_dir_all(folder)?;
            // Write atomically, because another run may read the file at the same time.
            let file = tempfile::NamedTempFile::new_in(folder)?;
            fs::write(file.path(), text)?;
            file.persist(folder.join(key).with_extension("json"))?;
            Ok(())
        };
        write().map_err(|error| {
            let what = format!("cannot save the leak check to {}: {error}", folder.display());
            Fault::new(FaultLayer::Setup, what).cause(FaultCause::from_io_error(&error))
        })
    }

    /// Returns the findings of a task that hides nothing.
    pub fn empty() -> Self {
        Self {
            labeled: LabeledSecrets::default(),
            leaks: Vec::new(),
            workdir: WorkdirFindings::default(),
            tools: ToolFiles::default(),
            unseen: ScanStats::default(),
            decoys: Vec::new(),
            unmatched: Vec::new(),
        }
    }

    /// Scans a fresh sandbox of the environment, before anything is prepared in it.
    ///
    /// # Errors
    /// Returns a sandbox fault if the sandbox cannot be searched.
    pub async fn search_environment(handle: &SandboxHandle, task: &Task) -> Result<Self, Fault> {
        let policy = LeakPolicy::get()?;
        let workdir = RawPath::from(task.workdir.as_str());
        let hidden = read_files(handle, task.hidden.clone(), &workdir).await?;
        // If the agent starts from scratch, its whole source is hidden.
        let source = match &task.from_scratch {
            Some(_) => {
                read_files(handle, workdir_entry_names(handle, &workdir).await?, &workdir).await?
            }
            None => BTreeMap::new(),
        };
        let labeled = build_secrets(task, &hidden, &source, policy)?;
        let unmatched = find_unmatched_paths(handle, task, &workdir).await?;
        let found = Self::search_secrets(handle, task, labeled, vec![workdir]).await?;
        Ok(Self { unmatched, ..found })
    }

    /// Scans the sandbox of the agent's own program for the same secrets. This sandbox has no work
    /// directory. `task` contains that sandbox's environment.
    ///
    /// # Errors
    /// Returns a sandbox fault if the sandbox cannot be searched.
    pub async fn search_program_sandbox(
        &self,
        handle: &SandboxHandle,
        task: &Task,
    ) -> Result<Self, Fault> {
        Self::search_secrets(handle, task, self.labeled.clone(), Vec::new()).await
    }

    async fn search_secrets(
        handle: &SandboxHandle,
        task: &Task,
        labeled_secrets: LabeledSecrets,
        skipped_paths: Vec<RawPath>,
    ) -> Result<Self, Fault> {
        let policy = LeakPolicy::get()?;
        let mut skip: Vec<RawPath> =
            policy.pseudo.iter().map(|path| RawPath::from(path.as_str())).collect();
        skip.extend(skipped_paths);
        let mut requests = Vec::new();
        if task.environment.base.as_deref() == Some("host") {
            let shown: Vec<RawPath> = host_base::visible_folders()
                .iter()
                .map(|path| RawPath::new(path.as_os_str().as_encoded_bytes()))
                .collect();
            let passed = policy.host.skip.iter().map(|path| RawPath::from(path.as_str()));
            requests.push(ScanRequest {
                roots: shown.clone(),
                skip: skip.iter().cloned().chain(passed).collect(),
                suffixes: Some(policy.host.suffixes.clone()),
                limits: policy.limits,
            });
            skip.extend(shown);
        }
        requests.push(ScanRequest {
            roots: vec![RawPath::from("/"), RawPath::from("/dev/shm")],
            skip,
            suffixes: None,
            limits: policy.limits,
        });
        let mut leak_check = Self { labeled: labeled_secrets, ..Self::empty() };
        for request in requests {
            let reply = leak_check.scan(handle, request).await?;
            leak_check.leaks.extend(
                reply.findings.iter().map(|found| Leak::from_finding(found, &leak_check.labeled)),
            );
            leak_check.unseen.add_reply(&reply);
        }
        if leak_check.leaks.iter().any(|leak| leak_check.find_host_path(task, leak).is_some()) {
            leak_check.decoys = select_decoys(&policy.host.skip, policy.host.decoys);
        }
        Ok(leak_check)
    }

    /// Removes the task's hidden content from the work directory and scans the remaining files,
    /// which every sandbox of the task contains. The sandbox cannot be used for anything else
    /// afterwards. Skips tasks that start from scratch: their work directory is emptied for the
    /// agent and protected from the code under test.
    ///
    /// # Errors
    /// Returns a setup fault if the mask does not apply, or a sandbox fault if the sandbox cannot
    /// be searched.
    pub async fn search_workdir(
        &mut self,
        handle: &SandboxHandle,
        task: &Task,
    ) -> Result<(), Fault> {
        if task.from_scratch.is_some() {
            return Ok(());
        }
        self.workdir.copies = find_named_copies(handle, task).await?;
        let known = HiddenCopies::from_copies(self.workdir.copies.clone());
        remove_hidden_content(handle, task, &known, ContentToKeep::default()).await?;
        let roots = vec![RawPath::from(task.workdir.as_str())];
        let limits = LeakPolicy::get()?.limits;
        let request = ScanRequest { roots, skip: Vec::new(), suffixes: None, limits };
        let reply = self.scan(handle, request).await?;
        let found = reply.findings.iter().map(|found| Leak::from_finding(found, &self.labeled));
        self.workdir.leaks = found.collect();
        Ok(())
    }

    /// Whether there are findings outside the work directory.
    pub fn has_leaks(&self) -> bool {
        !self.leaks.is_empty()
    }

    /// Returns a digest of the findings that affect how sandboxes are prepared. Verdicts depend on
    /// it.
    pub fn digest(&self) -> String {
        let text = serde_json::json!([self.leaks, self.workdir, self.tools]).to_string();
        sha256_hex(text.as_bytes())
    }

    /// Returns the host paths that must be absent from the task's sandbox, for the leaks that
    /// `is_selected` selects. A sandbox cannot change the host's directories, so the paths must be
    /// absent when it starts.
    pub(crate) fn absent_host_paths(
        &self,
        task: &Task,
        is_selected: &dyn Fn(&Leak) -> bool,
    ) -> HiddenPaths {
        let mut paths: Vec<RawPath> = Vec::new();
        for leak in self.leaks.iter().filter(|leak| is_selected(leak)) {
            if let Some(path) = self.find_host_path(task, leak) {
                paths.extend(find_host_compiled_copies(path));
                paths.push(path.clone());
            }
        }
        paths.sort();
        paths.dedup();
        let decoys = if paths.is_empty() { Vec::new() } else { self.decoys.clone() };
        HiddenPaths { paths, decoys }
    }

    /// Returns the paths of all leaks in files of the host.
    pub(crate) fn host_paths(&self, task: &Task) -> Vec<RawPath> {
        self.leaks.iter().filter_map(|leak| self.find_host_path(task, leak)).cloned().collect()
    }

    /// Whether the environment cannot exist without the leak. This is the case for the original
    /// package of a from-scratch task, and for files that were installed with the test tool or the
    /// package installer. Such a leak is removed even if the policy is to reject leaks, because the
    /// task could never run otherwise.
    pub(crate) fn is_unavoidable(&self, task: &Task, leak: &Leak) -> Result<bool, Fault> {
        let is_original = task.from_scratch.is_some() && leak.kind == LeakKind::ImportableCopy;
        Ok(is_original
            || self.tools.needs_leaked_file(leak)
            || LeakPolicy::get()?.is_bundled_by_tool(&leak.place))
    }

    /// Returns the leak's path if the file is part of the host's file system.
    pub(crate) fn find_host_path<'l>(&self, task: &Task, leak: &'l Leak) -> Option<&'l RawPath> {
        if task.environment.base.as_deref() != Some("host") {
            return None;
        }
        let path = leak.remove.as_ref()?;
        let is_shown = host_base::visible_folders().iter().any(|shown| {
            let below = path.as_bytes().strip_prefix(shown.as_os_str().as_encoded_bytes());
            below.is_some_and(|rest| rest.starts_with(b"/"))
        });
        is_shown.then_some(path)
    }

    pub(super) async fn scan(
        &self,
        handle: &SandboxHandle,
        request: ScanRequest,
    ) -> Result<ScanReply, Fault> {
        handle
            .scan(request, &self.labeled.secrets)
            .await
            .map_err(|error| error.to_fault("searching for hidden content"))
    }
}

/// Returns the interpreter's compiled copies next to a file of the host.
fn find_host_compiled_copies(path: &RawPath) -> Vec<RawPath> {
    let path = Path::new(OsStr::from_bytes(path.as_bytes()));
    let (Some(folder), Some(stem)) = (path.parent(), path.file_stem()) else { return Vec::new() };
    if path.extension() != Some(OsStr::new("py")) {
        return Vec::new();
    }
    let start = [stem.as_bytes(), b"."].concat();
    let entries = fs::read_dir(folder.join("__pycache__")).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().as_bytes().starts_with(&start))
        .map(|entry| RawPath::new(entry.path().as_os_str().as_bytes()))
        .collect()
}

/// Returns `count` host directories that contain Python code, selected by the hashes of their
/// paths. The selection is the same for every task, so that an agent learns nothing from comparing
/// the hidden paths of two tasks.
fn select_decoys(skip_prefixes: &[String], count: usize) -> Vec<RawPath> {
    let mut found = Vec::new();
    let mut open = host_base::visible_folders();
    let hidden = host_base::hidden_folders();
    while let Some(folder) = open.pop() {
        if hidden.contains(&folder) || skip_prefixes.iter().any(|skip| Path::new(skip) == folder) {
            continue;
        }
        let mut holds_code = false;
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => open.push(entry.path()),
                Ok(kind) if kind.is_file() => {
                    holds_code |= entry.file_name().as_bytes().ends_with(b".py");
                }
                _ => {}
            }
        }
        if holds_code {
            let path = folder.as_os_str().as_bytes();
            found.push((sha256_hex(path), RawPath::new(path)));
        }
    }
    found.sort();
    found.into_iter().take(count).map(|(_, path)| path).collect()
}

/// Returns hidden paths that exist neither in the environment nor in one of the task's patches.
/// Most such paths contain typing errors, which leave the intended files visible to the agent.
async fn find_unmatched_paths(
    handle: &SandboxHandle,
    task: &Task,
    workdir: &RawPath,
) -> Result<Vec<String>, Fault> {
    let patches = [&task.mask, &task.gold, &task.test_patch].into_iter().flatten();
    let patched: Vec<String> =
        patches.flat_map(|patch| patch_lines_by_file(patch).into_keys()).collect();
    let mut unmatched = Vec::new();
    for hidden in &task.hidden {
        let folder = format!("{}/", hidden.trim_end_matches('/'));
        if patched.iter().any(|path| path == hidden || path.starts_with(&folder)) {
            continue;
        }
        let full = workdir.join(&RawPath::from(hidden.as_str()));
        let found = handle.stat(&full).await;
        let found = found.map_err(|error| error.to_fault(format!("checking {hidden}")))?;
        if found.is_none() {
            unmatched.push(hidden.clone());
        }
    }
    Ok(unmatched)
}

/// Returns the names of the entries in the work directory.
async fn workdir_entry_names(
    handle: &SandboxHandle,
    workdir: &RawPath,
) -> Result<Vec<String>, Fault> {
    let entries = handle.list(workdir).await;
    let entries = entries.map_err(|error| error.to_fault("listing the source files"))?;
    Ok(entries.iter().map(|entry| entry.name.to_escaped()).collect())
}

/// Reads files, including all files below directories. Returns the contents by path below the work
/// directory.
async fn read_files(
    handle: &SandboxHandle,
    mut pending_paths: Vec<String>,
    workdir: &RawPath,
) -> Result<BTreeMap<String, Vec<u8>>, Fault> {
    let mut files = BTreeMap::new();
    while let Some(path) = pending_paths.pop() {
        let full = workdir.join(&RawPath::parse(&path).unwrap_or_else(|| path.as_str().into()));
        let reading = |error: SandboxError| error.to_fault(format!("reading hidden file {path}"));
        let Some(entry) = handle.stat(&full).await.map_err(reading)? else { continue };
        match entry.kind {
            EntryKind::Dir if entry.name.as_bytes() != b".git" => {
                let entries = handle.list(&full).await.map_err(reading)?;
                let folder = path.trim_end_matches('/');
                pending_paths
                    .extend(entries.iter().map(|entry| format!("{folder}/{}", entry.name)));
            }
            EntryKind::File if entry.size <= MAX_HIDDEN_FILE_BYTES => {
                let bytes = handle.read(&full, MAX_HIDDEN_FILE_BYTES).await.map_err(reading)?;
                files.insert(path, bytes);
            }
            _ => {}
        }
    }
    Ok(files)
}
