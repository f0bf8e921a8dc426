//! Restricts a sandbox's container beyond the engine's defaults, and verifies the restrictions.

use std::collections::HashMap;

use bollard::models::{HostConfig, ResourcesUlimits};
use proctor_sandbox_api::{
    SandboxHandle,
    wire::{Defense, RawPath},
};
use proctor_types::{Fault, FaultLayer, SandboxSpec};

/// The paths to cover, which are the same for both back ends. This list replaces the engine's list,
/// so it includes everything that engines cover by default.
const COVERED_PATHS: &str = include_str!("../../../configs/sandbox/covered-paths.txt");

/// Limits for shared memory and message queues. These objects belong to no process: without limits,
/// they would keep their memory after the process that filled them has ended, and killing processes
/// would not free it.
const SHARED_MEMORY: [(&str, &str); 2] = [("kernel.shm_rmid_forced", "1"), ("kernel.msgmni", "32")];

/// Paths that engines make read-only by default.
const READ_ONLY_PATHS: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// The agent's own settings. They are read-only, because otherwise a process of the same user could
/// change the agent's OOM score.
const AGENT_PROC_PATH: &str = "/proc/1";

/// The agent's OOM score. If memory runs out, the kernel kills the agent before the machine's own
/// programs. The agent starts commands with twice this score, so the kernel kills them first.
const OOM_SCORE: i64 = 500;

/// Returns entries for the limits that no engine can enforce.
pub fn unenforceable_limits() -> [String; 2] {
    [
        "inodes: an engine cannot limit the number of files".to_owned(),
        "rations: watches (inotify) and terminals are shared by the whole machine".to_owned(),
    ]
}

/// Adds the restrictions to a sandbox's container.
pub fn harden(
    config: &mut HostConfig,
    limits: &SandboxSpec,
    disabled_defenses: &[Defense],
    has_selinux: bool,
) {
    let up = |defense| !disabled_defenses.contains(&defense);
    let options = config.security_opt.get_or_insert_default();
    if up(Defense::NoNewPrivileges) {
        options.push("no-new-privileges:true".to_owned());
    }
    if up(Defense::CoveredProc) {
        let paths = COVERED_PATHS.lines().filter(|line| line.starts_with('/'));
        config.masked_paths = Some(paths.map(str::to_owned).collect());
    }
    if up(Defense::SharedMemory) {
        let settings = SHARED_MEMORY.map(|(key, value)| (key.to_owned(), value.to_owned()));
        config.sysctls = Some(HashMap::from(settings));
    }
    // With SELinux, the engine's runtime writes to the agent's settings after they have become
    // read-only, so starting the container would fail.
    if up(Defense::AgentIdentity) && !has_selinux {
        let paths = READ_ONLY_PATHS.into_iter().chain([AGENT_PROC_PATH]);
        config.readonly_paths = Some(paths.map(str::to_owned).collect());
    }
    config.oom_score_adj = Some(OOM_SCORE);
    let mut ulimits = Vec::new();
    if up(Defense::CoreDumps) {
        ulimits.push(ulimit("core", 0));
    }
    // If the storage driver has no quotas, this is the only disk limit. It stops a single file that
    // grows forever, which is the usual way to fill a disk.
    ulimits.push(ulimit("fsize", i64::try_from(limits.disk_mb << 20).unwrap_or(i64::MAX)));
    config.ulimits = Some(ulimits);
}

fn ulimit(name: &str, value: i64) -> ResourcesUlimits {
    ResourcesUlimits { name: Some(name.to_owned()), soft: Some(value), hard: Some(value) }
}

/// Returns the command that starts the agent in a sandbox.
pub fn entrypoint(agent: &str, disabled_defenses: &[Defense]) -> Vec<String> {
    let mut words = vec![agent.to_owned(), "serve".to_owned(), "--hardened".to_owned()];
    words.extend(disabled_defenses.iter().map(|defense| format!("--without={}", defense.name())));
    words
}

/// Asks the kernel which restrictions are in effect, instead of trusting the agent. Returns the
/// missing ones as entries for the sandbox's enforcement.
///
/// # Errors
/// Returns a sandbox fault if a restriction that every engine supports is missing.
pub async fn verify_hardening(
    handle: &SandboxHandle,
    disabled_defenses: &[Defense],
) -> Result<Vec<String>, Fault> {
    let mut notes: Vec<String> = disabled_defenses
        .iter()
        .map(|defense| format!("{}: disabled by a test", defense.name()))
        .collect();
    let status = handle
        .read(&RawPath::from("/proc/1/status"), 1 << 16)
        .await
        .map_err(|error| error.to_fault("cannot read the sandbox agent's state"))?;
    let status = String::from_utf8_lossy(&status);
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next()).unwrap_or_default().to_owned()
    };
    let holds =
        |defense, name, value: &str| disabled_defenses.contains(&defense) || field(name) == value;
    if !holds(Defense::NoNewPrivileges, "NoNewPrivs:", "1") {
        return Err(Fault::new(FaultLayer::Sandbox, "the engine did not set no-new-privileges"));
    }
    if !holds(Defense::SystemCalls, "Seccomp:", "2") {
        return Err(Fault::new(FaultLayer::Sandbox, "the sandbox has no system call filter"));
    }
    if !disabled_defenses.contains(&Defense::AgentIdentity) && field("Uid:") == "0" {
        notes.push("agent_identity: the container has no second user".to_owned());
    }
    Ok(notes)
}
