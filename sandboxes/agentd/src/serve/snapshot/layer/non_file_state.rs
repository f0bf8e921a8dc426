//! State that is not in files: processes, mounts and System V objects.

use std::collections::BTreeSet;

use crate::serve::{proc_file, processes};

/// Kinds of objects that outlive their processes. `/proc/sysvipc` has a file for each kind, which
/// starts with a header line.
const SYSTEM_V_KINDS: [&str; 3] = ["msg", "sem", "shm"];

/// Maximum number of processes to name in the reason.
const MAX_NAMED_PROCESSES: usize = 3;

/// State that is not stored in files.
#[derive(Default)]
pub(super) struct NonFileState {
    processes: BTreeSet<i32>,
    /// The content of `/proc/self/mountinfo`.
    pub(super) mounts: Vec<u8>,
    objects: [usize; 3],
}

impl NonFileState {
    pub(super) fn capture() -> Self {
        let lines = |name: &str| {
            let text = proc_file::read(&format!("/proc/sysvipc/{name}")).unwrap_or_default();
            text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).count()
        };
        Self {
            processes: processes::leftover_processes().iter().map(|process| process.pid).collect(),
            mounts: proc_file::read("/proc/self/mountinfo").unwrap_or_default(),
            objects: SYSTEM_V_KINDS.map(lines),
        }
    }

    /// If there is state that cannot be restored, returns the reason why.
    pub(super) fn unrestorable_reason(&self, start: &Self) -> Option<String> {
        let new: Vec<i32> = self.processes.difference(&start.processes).copied().collect();
        if !new.is_empty() {
            let named = |pid: &i32| {
                let name = proc_file::read(&format!("/proc/{pid}/comm")).unwrap_or_default();
                String::from_utf8_lossy(&name).trim().to_owned()
            };
            let mut names: Vec<String> = new.iter().take(MAX_NAMED_PROCESSES).map(named).collect();
            if new.len() > MAX_NAMED_PROCESSES {
                names.push("others".to_owned());
            }
            return Some(format!("agent processes were still running: {}", names.join(", ")));
        }
        if self.mounts != start.mounts {
            return Some("the agent changed the mounts".to_owned());
        }
        let more = self.objects.iter().zip(&start.objects).any(|(now, before)| now > before);
        more.then(|| "System V queues, semaphores or shared memory existed".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::NonFileState;

    #[test]
    fn processes_that_ran_at_the_start_are_ignored() {
        let start = NonFileState { processes: BTreeSet::from([1, 7]), ..NonFileState::default() };
        assert_eq!(
            NonFileState { processes: BTreeSet::from([7]), ..NonFileState::default() }
                .unrestorable_reason(&start),
            None
        );
        let more = NonFileState { processes: BTreeSet::from([7, 0]), ..NonFileState::default() };
        assert!(
            more.unrestorable_reason(&start).is_some_and(|why| why.contains("agent processes"))
        );
        let queue = NonFileState { objects: [2, 1, 1], ..NonFileState::default() };
        let before = NonFileState { objects: [1, 1, 1], ..NonFileState::default() };
        assert!(
            queue.unrestorable_reason(&before).is_some()
                && before.unrestorable_reason(&before).is_none()
        );
    }
}
