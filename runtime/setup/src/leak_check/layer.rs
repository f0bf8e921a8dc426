//! What an environment's layer holds of a task's secrets: looked up once, kept by digest.

use std::{collections::BTreeMap, fs, path::Path};

use proctor_sandbox_api::{
    SandboxError, SandboxHandle, host_base,
    wire::{EntryKind, RawPath, ScanReply, ScanRequest},
};
use proctor_types::{Fault, Layer, Task, sha256_hex};
use serde::{Deserialize, Serialize};

use super::{
    leak::Leak,
    policy::LeakPolicy,
    secrets::{Labelled, digest, secrets},
};
use crate::apply::join;

/// Hidden files larger than this are not fingerprinted, in bytes.
const HIDDEN_FILE: u64 = 4 << 20;

/// All of a layer but its work directory, which every trial prepares and looks through itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerFindings {
    pub(super) labelled: Labelled,
    pub leaks: Vec<Leak>,
    pub unseen: Unseen,
}

/// What a scan passed over: the promise ends here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unseen {
    /// Files and expanded streams past the limit of bytes.
    pub too_large: u64,
    /// Archives past the limit of depth.
    pub too_deep: u64,
    /// Files that could not be read, and damaged archives.
    pub unreadable: u64,
    /// There were more findings than are reported.
    pub more: bool,
    /// Files that were looked into.
    pub files: u64,
    /// Bytes of them, before any expansion.
    pub bytes: u64,
    /// Milliseconds.
    pub ms: u64,
}

impl Unseen {
    pub(super) fn add(&mut self, reply: &ScanReply) {
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
    /// The name of the findings for a task on an environment, as [`proctor_sandbox_api::Prepared`]
    /// names it.
    ///
    /// # Errors
    /// The shipped policy cannot be read.
    pub fn key(task: &Task, environment: &str) -> Result<String, Fault> {
        let text = format!("{} {environment} {}", LeakPolicy::get()?.digest(), digest(task));
        Ok(sha256_hex(text.as_bytes()))
    }

    /// Findings that were kept; nothing where there are none, or they cannot be read.
    pub fn read(folder: &Path, key: &str) -> Option<Self> {
        let text = fs::read(folder.join(key).with_extension("json")).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Keeps the findings. They name places and hold hashes, no content.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write(&self, folder: &Path, key: &str) -> Result<(), Fault> {
        let fault = |error: &dyn std::fmt::Display| {
            Fault::new(
                Layer::Setup,
                format!("keep the leak check in {}: {error}", folder.display()),
            )
        };
        let text = serde_json::to_vec(self).map_err(|error| fault(&error))?;
        fs::create_dir_all(folder).map_err(|error| fault(&error))?;
        // Whole or not at all: another run may read it now.
        let file = tempfile::NamedTempFile::new_in(folder).map_err(|error| fault(&error))?;
        fs::write(file.path(), text).map_err(|error| fault(&error))?;
        file.persist(folder.join(key).with_extension("json")).map_err(|error| fault(&error))?;
        Ok(())
    }

    /// Looks through a fresh sandbox of the environment in which nothing was prepared yet.
    ///
    /// # Errors
    /// A fault of the sandbox where the sandbox cannot be searched.
    pub async fn take(handle: &SandboxHandle, task: &Task) -> Result<Self, Fault> {
        let policy = LeakPolicy::get()?;
        let workdir = RawPath::from(task.workdir.as_str());
        let hidden = files(handle, task.hidden.clone(), &workdir).await?;
        // Where the agent starts from nothing, the whole source is what it may not see.
        let source = match &task.from_scratch {
            Some(_) => files(handle, top(handle, &workdir).await?, &workdir).await?,
            None => BTreeMap::new(),
        };
        let labelled = secrets(task, &hidden, &source, policy)?;
        let mut skip: Vec<RawPath> =
            policy.pseudo.iter().map(|path| RawPath::from(path.as_str())).collect();
        skip.push(workdir);
        let mut requests = Vec::new();
        if task.environment.base.as_deref() == Some("host") {
            let shown: Vec<RawPath> = host_base::shown()
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
        let mut leak_check = Self { labelled, leaks: Vec::new(), unseen: Unseen::default() };
        for request in requests {
            let reply = leak_check.scan(handle, request).await?;
            leak_check
                .leaks
                .extend(reply.findings.iter().map(|found| Leak::of(found, &leak_check.labelled)));
            leak_check.unseen.add(&reply);
        }
        Ok(leak_check)
    }

    /// Paths of the host that a sandbox for the task must not show: where the host itself holds a copy.
    /// The host's folders cannot be changed from a sandbox, so they are covered, whatever the policy
    /// for an environment's own contents.
    pub fn covers(&self, task: &Task) -> Vec<RawPath> {
        let mut covers: Vec<RawPath> = Vec::new();
        for path in self.leaks.iter().filter_map(|leak| self.covered(task, leak)) {
            // The interpreter's own copy of the file beside it; nothing where there is none.
            let folder = path.as_bytes().rsplitn(2, |&byte| byte == b'/').nth(1);
            if path.as_bytes().ends_with(b".py") {
                covers
                    .extend(folder.map(|folder| RawPath::new([folder, b"/__pycache__"].concat())));
            }
            covers.push(path.clone());
        }
        covers.sort();
        covers.dedup();
        covers
    }

    /// What is covered because of a finding.
    pub(super) fn covered<'l>(&self, task: &Task, leak: &'l Leak) -> Option<&'l RawPath> {
        if task.environment.base.as_deref() != Some("host") {
            return None;
        }
        let path = leak.remove.as_ref()?;
        let is_shown = host_base::shown().iter().any(|shown| {
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
            .scan(request, &self.labelled.secrets)
            .await
            .map_err(|error| error.fault("looking for hidden content"))
    }
}

/// The names in the work directory.
async fn top(handle: &SandboxHandle, workdir: &RawPath) -> Result<Vec<String>, Fault> {
    let entries = handle.list(workdir).await;
    let entries = entries.map_err(|error| error.fault("listing the source"))?;
    Ok(entries.iter().map(|entry| entry.name.escaped()).collect())
}

/// Files by path below the work directory, and all files below folders, as the environment has them.
async fn files(
    handle: &SandboxHandle,
    mut left: Vec<String>,
    workdir: &RawPath,
) -> Result<BTreeMap<String, Vec<u8>>, Fault> {
    let mut files = BTreeMap::new();
    while let Some(path) = left.pop() {
        let full = join(workdir, &RawPath::parse(&path).unwrap_or_else(|| path.as_str().into()));
        let reading = |error: SandboxError| error.fault(format!("reading the hidden {path}"));
        let Some(entry) = handle.stat(&full).await.map_err(reading)? else { continue };
        match entry.kind {
            EntryKind::Dir if entry.name.as_bytes() != b".git" => {
                let entries = handle.list(&full).await.map_err(reading)?;
                let folder = path.trim_end_matches('/');
                left.extend(entries.iter().map(|entry| format!("{folder}/{}", entry.name)));
            }
            EntryKind::File if entry.size <= HIDDEN_FILE => {
                let bytes = handle.read(&full, HIDDEN_FILE).await.map_err(reading)?;
                files.insert(path, bytes);
            }
            _ => {}
        }
    }
    Ok(files)
}
