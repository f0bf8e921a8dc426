//! Checks whether a process on this machine is still running.

use std::fs;

use serde::{Deserialize, Serialize};

/// Identifies a process, even if a later process has the same id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// Boot id, which differs between machines and between boots.
    boot: String,
    /// PID namespace. Process ids are unique only within a namespace.
    namespace: String,
    /// Start time in clock ticks since boot.
    started: u64,
}

impl Process {
    pub(crate) fn current() -> Self {
        let pid = std::process::id();
        let (boot, namespace) = boot_and_namespace();
        Self { pid, boot, namespace, started: start_time(pid).unwrap_or_default() }
    }

    /// Returns whether the process is running, or `None` if it belongs to another machine.
    pub(crate) fn is_running(&self) -> Option<bool> {
        let here = boot_and_namespace();
        if self.boot.is_empty() || (&self.boot, &self.namespace) != (&here.0, &here.1) {
            return None;
        }
        Some(start_time(self.pid) == Some(self.started))
    }
}

fn boot_and_namespace() -> (String, String) {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    (boot.trim().to_owned(), namespace.display().to_string())
}

/// Returns the process's start time, which is field 22 of `/proc/PID/stat`. Fields are counted from
/// the last `)`, which ends the command name, because the name may contain spaces and parentheses.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    // A zombie counts as ended.
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn process_differs_from_a_later_process_with_the_same_id() {
        let own = Process::current();
        assert_eq!(own.is_running(), Some(true));
        assert_eq!(Process { started: own.started + 1, ..own.clone() }.is_running(), Some(false));
        assert_eq!(Process { boot: "another".into(), ..own.clone() }.is_running(), None);
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let started = start_time(child.id()).unwrap();
        let other = Process { pid: child.id(), started, ..own };
        assert_eq!(other.is_running(), Some(true));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(other.is_running(), Some(false));
    }
}
