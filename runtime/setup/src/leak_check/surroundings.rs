//! Checks a sandbox for access to the host and its secrets: variables, mounts, engine sockets and
//! credential files.

use proctor_sandbox_api::{
    SandboxHandle,
    wire::{RawPath, RefusalKind},
};
use proctor_types::{Fault, Task};

use super::{
    leak::{Leak, LeakKind},
    policy::LeakPolicy,
};

/// Maximum number of bytes to read from a file in `/proc`.
const MAX_PROC_FILE_BYTES: u64 = 4 << 20;

/// Searches the sandbox with the permissions of a process in the sandbox, before any other process
/// runs there.
pub(super) async fn search_surroundings(
    handle: &SandboxHandle,
    task: &Task,
) -> Result<Vec<Leak>, Fault> {
    let policy = &LeakPolicy::get()?.sandbox;
    let mut leaks = Vec::new();
    let mut variables: Vec<(String, String)> = task.env.clone().into_iter().collect();
    let environ = read_environ(handle).await?;
    variables.extend(environ.split('\0').filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    }));
    variables.sort();
    variables.dedup();
    for (name, value) in &variables {
        if !value.is_empty() && policy.variables.iter().any(|glob| matches_glob(glob, name)) {
            let what = "the variable's name suggests a secret";
            leaks.push(Leak::new_secret(LeakKind::SecretVariable, name, what));
        }
    }
    for line in read_proc_file(handle, "/proc/self/mountinfo").await?.lines() {
        let Some(point) = line.split(' ').nth(4) else { continue };
        let below = |mount: &String| {
            point.strip_prefix(mount.as_str()).is_some_and(|r| r.is_empty() || r.starts_with('/'))
        };
        if policy.mounts.iter().any(below) {
            let what = "the directory is mounted from the host";
            leaks.push(Leak::new_secret(LeakKind::SecretMount, point, what));
        }
    }
    for socket in &policy.sockets {
        if exists(handle, socket).await? {
            let what = "the socket gives access to a container engine on the host";
            leaks.push(Leak::new_secret(LeakKind::EngineSocket, socket, what));
        }
    }
    for home in list_home_dirs(handle).await? {
        for file in &policy.home_files {
            let path = format!("{home}/{file}");
            if exists(handle, &path).await? {
                let mut leak =
                    Leak::new_secret(LeakKind::SecretFile, &path, "the file contains credentials");
                leak.remove = Some(RawPath::from(path));
                leaks.push(leak);
            }
        }
    }
    Ok(leaks)
}

async fn list_home_dirs(handle: &SandboxHandle) -> Result<Vec<String>, Fault> {
    let mut homes = vec!["/root".to_owned()];
    if exists(handle, "/home").await? {
        let entries = handle.list(&"/home".into()).await;
        let entries = entries.map_err(|error| error.to_fault("listing /home"))?;
        homes.extend(entries.iter().map(|entry| format!("/home/{}", entry.name)));
    }
    Ok(homes)
}

async fn exists(handle: &SandboxHandle, path: &str) -> Result<bool, Fault> {
    let found = handle.stat(&path.into()).await;
    // If the sandbox agent cannot read a file, the file leaks nothing, because processes in the
    // sandbox can read no more than the agent.
    match found {
        Ok(found) => Ok(found.is_some()),
        Err(error) if error.is_broken() => Err(error.to_fault(format!("checking {path}"))),
        Err(_) => Ok(false),
    }
}

/// Returns the environment variables of the sandbox's first process, which is the sandbox agent.
///
/// If the sandbox's user is not root, the file in `/proc` belongs to the machine's root. Then no
/// process in the sandbox can read the file, so it leaks nothing.
async fn read_environ(handle: &SandboxHandle) -> Result<String, Fault> {
    let path = "/proc/self/environ";
    match handle.read(&path.into(), MAX_PROC_FILE_BYTES).await {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.refusal_kind() == Some(RefusalKind::Permission) => Ok(String::new()),
        Err(error) => Err(error.to_fault(format!("reading {path}"))),
    }
}

async fn read_proc_file(handle: &SandboxHandle, path: &str) -> Result<String, Fault> {
    match handle.read(&path.into(), MAX_PROC_FILE_BYTES).await {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) => Err(error.to_fault(format!("reading {path}"))),
    }
}

/// Matches a name against a glob with an optional leading `*`.
fn matches_glob(glob: &str, name: &str) -> bool {
    match glob.strip_prefix('*') {
        Some(end) => name.ends_with(end),
        None => name == glob,
    }
}
