//! Prepares a task's sandboxes, both for the agent and for the tests. Preparation removes copies of
//! the content that the task hides.

use std::collections::BTreeMap;

use proctor_sandbox_api::{
    Backend, Mount, PreparedEnvironment, Sandbox, SandboxHandle, SandboxRequest,
    wire::{EntryKind, RawPath},
};
use proctor_types::{
    CLOCK_LIBRARY, Fault, FaultCause, FaultLayer, OnFinding, SandboxSpec, Task, cpu_variables,
};

use crate::{
    LayerFindings,
    hidden_copies::{HiddenCopies, ProvidedModule, RemainingCopy},
    leak_check::{Leak, LeakKind, LeakPolicy, file_name, leak_fault, remove_leak},
};

/// Maximum number of bytes to provide to the test tool.
const MAX_PROVIDED_BYTES: usize = 32 << 20;

/// The purpose of a sandbox, which determines how leaks are handled.
#[derive(Debug, Clone, Copy)]
pub enum Purpose<'a> {
    /// To run an agent. Either no hidden content is left in the sandbox, or the sandbox is
    /// rejected.
    Driving(OnFinding),
    /// To run tests that the grader starts. Modules that the test tool needs at its start are
    /// provided only to the tool, in a way that the code under test cannot access.
    Testing,
    /// To run tests that a benchmark's own commands start. Files that these commands need are not
    /// removed.
    Procedure { commands: &'a str },
}

/// The parameters of a sandbox for a task.
pub struct Preparation<'a> {
    pub backend: &'a dyn Backend,
    pub environment: &'a PreparedEnvironment,
    pub task: &'a Task,
    /// Copies of the task's secrets in the environment.
    pub findings: &'a LayerFindings,
    pub limits: &'a SandboxSpec,
    /// Mounts for an agent's sandbox. Sandboxes for tests have none.
    pub mounts: &'a [Mount],
    /// The sandbox's name in labels and messages.
    pub label: String,
}

/// An open sandbox of a [`Preparation`]. The mask is not applied yet.
pub struct ReadySandbox {
    pub sandbox: Box<dyn Sandbox>,
    pub hidden_copies: HiddenCopies,
}

impl Preparation<'_> {
    /// Opens the sandbox, and removes hidden content that the environment contains before anything
    /// else runs.
    ///
    /// # Errors
    /// Returns a setup fault that names the paths if hidden content cannot be removed, or may not
    /// be removed from an agent's sandbox. Returns a sandbox fault if the sandbox fails.
    pub async fn open(&self, purpose: Purpose<'_>) -> Result<ReadySandbox, Fault> {
        let (task, findings) = (self.task, self.findings);
        let mut hidden = HiddenCopies {
            workdir_copies: findings.workdir.copies.clone(),
            workdir_leaks: findings
                .workdir
                .leaks
                .iter()
                .filter_map(|leak| leak.remove.clone())
                .collect(),
            ..HiddenCopies::default()
        };
        let mut going = Vec::new();
        let mut refused = Vec::new();
        for leak in &findings.leaks {
            match self.choose_action(purpose, leak)? {
                LeakAction::Remove => going.push(leak),
                LeakAction::RemoveAndProvide => {
                    going.push(leak);
                    hidden.provided_modules.extend(
                        leak.remove
                            .clone()
                            .map(|place| ProvidedModule { path: place, files: BTreeMap::new() }),
                    );
                }
                LeakAction::Keep(why) => {
                    hidden
                        .remaining_copies
                        .push(RemainingCopy { location: leak.place.clone(), reason: why });
                }
                LeakAction::Reject => refused.push(leak.clone()),
            }
        }
        // Check this now, because the result does not depend on the sandbox. If the scan found more
        // leaks than it reported, the others cannot be hidden.
        let on_finding = match purpose {
            Purpose::Driving(on_finding) => on_finding,
            Purpose::Testing | Purpose::Procedure { .. } => OnFinding::Remove,
        };
        if !refused.is_empty() || findings.unseen.more {
            return Err(leak_fault(task, &refused, findings.unseen.more, on_finding));
        }
        let mut environment = self.environment.clone();
        environment.hidden_paths = findings.absent_host_paths(task, &|leak| going.contains(&leak));
        let request = SandboxRequest {
            environment,
            limits: self.limits.clone(),
            mounts: match purpose {
                Purpose::Driving(_) => self.mounts.to_vec(),
                Purpose::Testing | Purpose::Procedure { .. } => Vec::new(),
            },
            purpose: self.label.clone(),
        };
        let variables = cpu_variables(self.limits.cpus);
        let variables = variables.map_err(|error| Fault::new(FaultLayer::Setup, error))?;
        let mut sandbox = self.backend.open(&request).await?;
        let handle = std::sync::Arc::clone(sandbox.handle());
        handle.set_default_env(variables);
        let made = async {
            self.copy_clock_library(&handle).await?;
            self.remove_findings(&handle, &going, hidden).await
        };
        match made.await {
            Ok(hidden) => Ok(ReadySandbox { sandbox, hidden_copies: hidden }),
            Err(fault) => {
                // Report the first fault, even if closing the sandbox fails too.
                let _ = sandbox.close().await;
                Err(fault)
            }
        }
    }

    /// Copies the library that makes programs see the task's clock. Environment variables make the
    /// task's commands load the library.
    async fn copy_clock_library(&self, handle: &SandboxHandle) -> Result<(), Fault> {
        if self.task.clock.is_none() {
            return Ok(());
        }
        let library = proctor_clock::library().ok_or_else(|| {
            let what = format!(
                "{}: this build of Proctor does not include the clock library",
                self.task.id
            );
            Fault::new(FaultLayer::Setup, what)
                .cause(FaultCause::Invalid)
                .hint("use a Linux build of Proctor, or remove `clock`")
        })?;
        let laid = handle.write(&RawPath::from(CLOCK_LIBRARY), library, Some(0o755)).await;
        laid.map_err(|error| error.to_fault("copying the clock library"))
    }

    fn choose_action(&self, purpose: Purpose<'_>, leak: &Leak) -> Result<LeakAction, Fault> {
        let (task, findings) = (self.task, self.findings);
        let policy = LeakPolicy::get()?;
        Ok(match purpose {
            Purpose::Driving(on_finding) => {
                let may_go = on_finding == OnFinding::Remove
                    || findings.find_host_path(task, leak).is_some()
                    || findings.is_unavoidable(task, leak)?;
                if may_go { LeakAction::Remove } else { LeakAction::Reject }
            }
            Purpose::Testing => match findings.tools.loads_leaked_file(leak) {
                true if leak.remove.as_ref().is_some_and(|path| policy.is_importable(path)) => {
                    LeakAction::RemoveAndProvide
                }
                true => LeakAction::Keep("the test tool loads this file".into()),
                false => LeakAction::Remove,
            },
            Purpose::Procedure { commands } => {
                if findings.tools.needs_leaked_file(leak) {
                    return Ok(LeakAction::Keep(
                        "the file was installed with the test tool".into(),
                    ));
                }
                if task.from_scratch.is_some() && leak.kind == LeakKind::ImportableCopy {
                    let why = "the procedure's tests may need the library for other purposes";
                    return Ok(LeakAction::Keep(why.into()));
                }
                match policy.find_tool(commands, leak.place.as_str()) {
                    Some(tool) => LeakAction::Keep(format!("the procedure runs {tool}")),
                    None => LeakAction::Remove,
                }
            }
        })
    }

    /// Reads the modules that are provided to the test tool, then removes all findings. Host paths
    /// are already absent from the sandbox, so such modules are read on the host.
    async fn remove_findings(
        &self,
        handle: &SandboxHandle,
        leaks_to_remove: &[&Leak],
        mut hidden_copies: HiddenCopies,
    ) -> Result<HiddenCopies, Fault> {
        let (task, findings) = (self.task, self.findings);
        let mut left = MAX_PROVIDED_BYTES;
        for lent in &mut hidden_copies.provided_modules {
            let on_host = findings.host_paths(task).contains(&lent.path);
            lent.files = match on_host {
                true => read_host_module(&lent.path, &mut left),
                false => read_module(handle, &lent.path, &mut left).await,
            }
            .map_err(|fault| fault.context(&task.id))?;
        }
        let mut stay = Vec::new();
        for leak in leaks_to_remove {
            if findings.find_host_path(task, leak).is_some() {
                hidden_copies.removed_copies.push(format!("absent: {leak}"));
                continue;
            }
            match remove_leak(handle, leak).await? {
                true => hidden_copies.removed_copies.push(leak.to_string()),
                false => stay.push((*leak).clone()),
            }
        }
        match stay.is_empty() {
            true => Ok(hidden_copies),
            false => Err(leak_fault(task, &stay, false, OnFinding::Remove)),
        }
    }
}

enum LeakAction {
    Remove,
    /// Remove the leak from the sandbox, but provide the module to the test tool by other means.
    RemoveAndProvide,
    Keep(String),
    Reject,
}

fn too_large_fault(path: &RawPath) -> Fault {
    Fault::new(FaultLayer::Setup, format!("{path} is too large to be provided to the test tool"))
}

/// Whether to provide a file to the test tool. Compiled copies are not provided, because they don't
/// work at another path.
fn should_provide(name: &[u8]) -> bool {
    name != b"__pycache__" && !name.ends_with(b".pyc")
}

async fn read_module(
    handle: &SandboxHandle,
    path: &RawPath,
    remaining_bytes: &mut usize,
) -> Result<BTreeMap<String, Vec<u8>>, Fault> {
    let reading =
        |error: proctor_sandbox_api::SandboxError| error.to_fault(format!("reading {path}"));
    let name = file_name(path);
    let mut files = BTreeMap::new();
    let mut open = vec![(path.clone(), RawPath::new(name))];
    while let Some((full, inner)) = open.pop() {
        let Some(found) = handle.stat(&full).await.map_err(reading)? else { continue };
        match found.kind {
            EntryKind::Dir => {
                for entry in handle.list(&full).await.map_err(reading)? {
                    if should_provide(entry.name.as_bytes()) {
                        open.push((full.join(&entry.name), inner.join(&entry.name)));
                    }
                }
            }
            EntryKind::File => {
                let bytes = handle.read(&full, MAX_PROVIDED_BYTES as u64).await.map_err(reading)?;
                *remaining_bytes = remaining_bytes
                    .checked_sub(bytes.len())
                    .ok_or_else(|| too_large_fault(path))?;
                files.insert(inner.to_string(), bytes);
            }
            EntryKind::Link | EntryKind::Other => {}
        }
    }
    Ok(files)
}

fn read_host_module(
    path: &RawPath,
    remaining_bytes: &mut usize,
) -> Result<BTreeMap<String, Vec<u8>>, Fault> {
    use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt, path::PathBuf};

    let reading = |error: std::io::Error| {
        Fault::new(FaultLayer::Setup, format!("cannot read {path} on the host: {error}"))
    };
    let mut files = BTreeMap::new();
    let start = PathBuf::from(OsStr::from_bytes(path.as_bytes()));
    let mut open = vec![(start, RawPath::new(file_name(path)))];
    while let Some((full, inner)) = open.pop() {
        let found = fs::symlink_metadata(&full).map_err(reading)?;
        if found.is_dir() {
            for entry in fs::read_dir(&full).map_err(reading)? {
                let name = entry.map_err(reading)?.file_name();
                if should_provide(name.as_bytes()) {
                    open.push((full.join(&name), inner.join(&RawPath::new(name.as_bytes()))));
                }
            }
        } else if found.is_file() {
            let bytes = fs::read(&full).map_err(reading)?;
            *remaining_bytes =
                remaining_bytes.checked_sub(bytes.len()).ok_or_else(|| too_large_fault(path))?;
            files.insert(inner.to_string(), bytes);
        }
    }
    Ok(files)
}
