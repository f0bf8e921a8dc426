//! Creates and removes cgroups (version 1 or 2) through their files.

use std::{
    fs, io, mem,
    path::{Path, PathBuf},
    sync::Arc,
};

use proctor_sandbox_api::read_kernel_counts;
use proctor_types::{SandboxCounts, SandboxSpec};

use crate::{cleanup, owned_groups, registry::RegistryEntry};

const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];

/// Period of the CPU quota in microseconds.
const CPU_PERIOD_US: u64 = 100_000;

/// Number of the agent's threads, plus the helper. Added to the sandbox's process limit.
pub(crate) const AGENT_PROCESSES: u64 = 16;

/// The agent's memory in MiB, added to the sandbox's memory limit. It is enough for the data of a
/// snapshot with the maximum number of files. Commands can also use this memory, but the kernel
/// kills them before the agent.
const AGENT_MEMORY_MB: u64 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CgroupVersion {
    V1,
    V2,
}

/// A directory in which this runtime can create groups.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ParentGroup {
    version: CgroupVersion,
    folder: PathBuf,
    controllers: Vec<&'static str>,
}

/// The directories in which this runtime creates groups. They are determined once per runtime.
pub(crate) struct GroupParents {
    parents: Vec<ParentGroup>,
}

/// The cgroups of one sandbox. If this value is dropped without [`Group::remove`], a thread
/// removes the groups.
pub(crate) struct Group {
    folders: Vec<PathBuf>,
    /// Keeps the runtime's registry entry locked as long as the groups exist, even after the back
    /// end is dropped.
    owner: Option<Arc<RegistryEntry>>,
    /// The files to which the sandbox's helper writes its process id to join the groups.
    pub(crate) procs_files: Vec<PathBuf>,
    pub(crate) has_memory: bool,
    pub(crate) has_pids: bool,
    /// Entries for requested limits that are not enforced.
    pub(crate) not_enforced: Vec<String>,
}

impl GroupParents {
    /// Finds directories in which groups can be created. Prefers this process's own groups, so that
    /// limits on this process also apply to its sandboxes.
    pub(crate) fn find(entry: &RegistryEntry) -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mut parents = Vec::new();
        for candidate in candidate_parents(&mounts, &own) {
            let folder = owned_groups::runtime_group_folder(&candidate.folder, entry.name());
            let Ok(()) = entry.record_group(&folder) else { continue };
            if let Ok(lock) = owned_groups::claim(&folder) {
                let usable = match candidate.version {
                    CgroupVersion::V1 => true,
                    // Writing fails if the group contains processes, because such a group cannot
                    // pass controllers on to its subgroups.
                    CgroupVersion::V2 => {
                        let wanted: Vec<String> =
                            candidate.controllers.iter().map(|name| format!("+{name}")).collect();
                        fs::write(folder.join("cgroup.subtree_control"), wanted.join(" ")).is_ok()
                    }
                };
                if usable {
                    entry.keep_lock(lock);
                    parents.push(ParentGroup { folder, ..candidate });
                    continue;
                }
                let _ = fs::remove_dir(&folder);
            }
        }
        // For each controller, use the first location where a directory could be created.
        let mut seen = Vec::new();
        parents.retain_mut(|parent: &mut ParentGroup| {
            parent.controllers.retain(|name| !seen.contains(name));
            seen.extend(parent.controllers.iter().copied());
            if parent.controllers.is_empty() {
                let _ = fs::remove_dir(&parent.folder);
            }
            !parent.controllers.is_empty()
        });
        Self { parents }
    }

    /// Creates a sandbox's groups and sets its limits.
    pub(crate) fn create_group(
        &self,
        handle: &str,
        limits: Option<&SandboxSpec>,
        owner: &Arc<RegistryEntry>,
    ) -> Group {
        let mut group = Group {
            folders: Vec::new(),
            owner: Some(Arc::clone(owner)),
            procs_files: Vec::new(),
            has_memory: false,
            has_pids: false,
            not_enforced: Vec::new(),
        };
        for parent in &self.parents {
            let folder = parent.folder.join(handle);
            if fs::create_dir(&folder).is_err() {
                continue;
            }
            group.procs_files.push(folder.join("cgroup.procs"));
            if let Some(limits) = limits {
                for name in &parent.controllers {
                    match set_limit(parent.version, &folder, name, limits) {
                        Ok(()) if *name == "memory" => group.has_memory = true,
                        Ok(()) if *name == "pids" => group.has_pids = true,
                        Ok(()) => {}
                        Err(error) => {
                            group.not_enforced.push(format!("{}: {error}", limit_name(name)));
                        }
                    }
                }
            }
            group.folders.push(folder);
        }
        for name in CONTROLLERS {
            if !self.parents.iter().any(|parent| parent.controllers.contains(&name)) {
                let limit = limit_name(name);
                group.not_enforced.push(format!("{limit}: no writable {name} cgroup"));
            }
        }
        group
    }
}

impl Group {
    /// Returns the files that count kills at the memory limit. They are readable as long as the
    /// group exists.
    pub(crate) fn memory_events(&self) -> Option<MemoryEvents> {
        self.has_memory.then(|| MemoryEvents { folders: self.folders.clone() })
    }

    /// Reads the kernel's counters. Groups without a limit also have them.
    pub(crate) fn counts(&self) -> SandboxCounts {
        read_kernel_counts(|file| {
            self.folders.iter().find_map(|folder| fs::read_to_string(folder.join(file)).ok())
        })
    }

    /// Kills all processes that are left in the groups, waits until they are gone, and removes the
    /// groups.
    pub(crate) fn remove(&mut self) -> io::Result<()> {
        for folder in self.folders.drain(..) {
            owned_groups::remove_group(&folder)?;
        }
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let folders = mem::take(&mut self.folders);
        let owner = self.owner.take();
        if folders.is_empty() {
            return;
        }
        // The processes are being killed. Wait in a thread until they are gone.
        cleanup::spawn(move || {
            for folder in folders {
                if let Err(error) = owned_groups::remove_group(&folder) {
                    tracing::warn!(%error, "cannot remove a sandbox's cgroup");
                }
            }
            drop(owner);
        });
    }
}

/// Files with the kernel's memory counters for a sandbox's groups.
#[derive(Debug)]
pub(crate) struct MemoryEvents {
    folders: Vec<PathBuf>,
}

impl MemoryEvents {
    /// Returns whether the kernel killed a process because the group was at its limit. The kernel
    /// also counts kills when the whole machine is out of memory. In that case, the group has not
    /// reached its limit.
    pub(crate) fn has_limit_kill(&self) -> bool {
        let values = |file: &str, name: &str| -> Vec<u64> {
            let read = |folder: &PathBuf| fs::read_to_string(folder.join(file)).ok();
            let text: String = self.folders.iter().filter_map(read).collect();
            text.lines().filter_map(|line| line.strip_prefix(name)?.trim().parse().ok()).collect()
        };
        let count = |file: &str, name: &str| values(file, name).iter().any(|count| *count > 0);
        // In version 1, recent kernels don't count the allocations that fail at the limit (observed
        // with 6.18). For these kernels, compare the peak usage with the limit. Allow a small
        // difference, because each CPU charges memory in advance.
        let was_full = |file: &str, limit: &str| {
            let (most, limit) = (values(file, ""), values(limit, ""));
            most.iter().zip(&limit).any(|(most, limit)| *most >= limit - limit / 64)
        };
        // The limits with and without swap are equal, and the kernel counts failures only for the
        // limit that it checks first. So check both.
        let at_limit = count("memory.failcnt", "")
            || count("memory.memsw.failcnt", "")
            || was_full("memory.max_usage_in_bytes", "memory.limit_in_bytes")
            || was_full("memory.memsw.max_usage_in_bytes", "memory.memsw.limit_in_bytes");
        let one = count("memory.oom_control", "oom_kill ") && at_limit;
        one || (count("memory.events", "oom_kill ") && count("memory.events", "oom "))
    }
}

/// Returns the configuration's name for the limit that a controller enforces.
fn limit_name(controller: &str) -> &str {
    match controller {
        "pids" => "processes",
        "cpu" => "cpus",
        other => other,
    }
}

fn set_limit(
    version: CgroupVersion,
    folder: &Path,
    name: &str,
    limits: &SandboxSpec,
) -> io::Result<()> {
    let put = |file: &str, value: &str| {
        fs::write(folder.join(file), value)
            .map_err(|error| io::Error::new(error.kind(), format!("{file}: {error}")))
    };
    let memory = ((limits.memory_mb + AGENT_MEMORY_MB) << 20).to_string();
    let processes = (limits.processes + AGENT_PROCESSES).to_string();
    let quota = ((limits.cpus * CPU_PERIOD_US as f64).round() as u64).max(1_000);
    match (version, name) {
        (CgroupVersion::V1, "memory") => {
            put("memory.limit_in_bytes", &memory)?;
            // If swap is available, limiting memory alone has no effect. This file exists if the
            // kernel accounts for swap.
            if folder.join("memory.memsw.limit_in_bytes").exists() {
                put("memory.memsw.limit_in_bytes", &memory)?;
            }
            Ok(())
        }
        (CgroupVersion::V2, "memory") => {
            put("memory.max", &memory)?;
            if folder.join("memory.swap.max").exists() {
                put("memory.swap.max", "0")?;
            }
            Ok(())
        }
        (_, "pids") => put("pids.max", &processes),
        (CgroupVersion::V1, _) => {
            put("cpu.cfs_period_us", &CPU_PERIOD_US.to_string())?;
            put("cpu.cfs_quota_us", &quota.to_string())
        }
        (CgroupVersion::V2, _) => put("cpu.max", &format!("{quota} {CPU_PERIOD_US}")),
    }
}

/// Removes the groups of all dead runtimes on this machine, if this process can see them and may
/// remove them. Returns the removed directories.
pub(crate) fn sweep() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    hierarchies(&mounts).into_iter().flat_map(|point| owned_groups::sweep(&point)).collect()
}

/// Returns the mount points of all hierarchies that may contain a sandbox's groups.
fn hierarchies(mounts: &str) -> Vec<PathBuf> {
    let of_use = |line: &&str| {
        let right = line.split_once(" - ").map_or("", |(_, right)| right);
        let mut right = right.split(' ');
        match right.next() {
            Some("cgroup2") => true,
            Some("cgroup") => {
                let held = right.nth(1).unwrap_or_default();
                held.split(',').any(|option| CONTROLLERS.contains(&option))
            }
            _ => false,
        }
    };
    let point = |line: &str| line.split(' ').nth(4).map(PathBuf::from);
    mounts.lines().filter(of_use).filter_map(point).collect()
}

/// Returns the directories in which groups might be created, best first.
fn candidate_parents(mounts: &str, own_cgroups: &str) -> Vec<ParentGroup> {
    let mut out = Vec::new();
    for line in mounts.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let mut left = left.split(' ').skip(3);
        let (Some(root), Some(point)) = (left.next(), left.next()) else { continue };
        let mut right = right.split(' ');
        let (kind, options) = (right.next().unwrap_or(""), right.nth(1).unwrap_or(""));
        match kind {
            "cgroup" => {
                let held: Vec<&str> = CONTROLLERS
                    .into_iter()
                    .filter(|name| options.split(',').any(|option| option == *name))
                    .collect();
                if held.is_empty() {
                    continue;
                }
                let group = own_group(own_cgroups, |names| held.iter().all(|n| names.contains(n)));
                if let Some(folder) = group.and_then(|group| group_folder(point, root, group)) {
                    out.push(ParentGroup { version: CgroupVersion::V1, folder, controllers: held });
                }
            }
            "cgroup2" => {
                let group = own_group(own_cgroups, |names| names == [""]);
                let Some(folder) = group.and_then(|group| group_folder(point, root, group)) else {
                    continue;
                };
                for folder in folder.ancestors().take_while(|path| path.starts_with(point)) {
                    let on = fs::read_to_string(folder.join("cgroup.subtree_control"))
                        .unwrap_or_default();
                    let controllers: Vec<&str> = CONTROLLERS
                        .into_iter()
                        .filter(|name| on.split_whitespace().any(|word| word == *name))
                        .collect();
                    if !controllers.is_empty() {
                        let folder = folder.to_owned();
                        out.push(ParentGroup { version: CgroupVersion::V2, folder, controllers });
                    }
                }
            }
            _ => {}
        }
    }
    out
}

/// Returns the group's path from a line of `/proc/self/cgroup`: the first whose controllers satisfy
/// `has_controllers`.
fn own_group(own_cgroups: &str, has_controllers: impl Fn(&[&str]) -> bool) -> Option<&str> {
    own_cgroups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let names: Vec<&str> = fields.next()?.split(',').collect();
        has_controllers(&names).then(|| fields.next()).flatten()
    })
}

/// Returns a group's directory below the mount point. In a container, the mount may show only the
/// part of the hierarchy below `root`.
fn group_folder(point: &str, root: &str, group: &str) -> Option<PathBuf> {
    let inner = Path::new(group).strip_prefix(root).ok()?;
    Some(Path::new(point).join(inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_below_the_current_cgroup() {
        let mounts = "30 25 0:26 / /cg/memory rw - cgroup cgroup rw,memory\n\
                      31 25 0:27 / /cg/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                      32 25 0:28 / /cg/freezer rw - cgroup cgroup rw,freezer\n";
        let own = "4:memory:/a/b\n3:cpuacct,cpu:/\n2:freezer:/\n0::/\n";
        let found: Vec<_> = candidate_parents(mounts, own)
            .into_iter()
            .map(|parent| (parent.folder, parent.controllers))
            .collect();
        assert_eq!(
            found,
            [
                (PathBuf::from("/cg/memory/a/b"), vec!["memory"]),
                (PathBuf::from("/cg/cpu,cpuacct"), vec!["cpu"]),
            ]
        );
    }

    #[test]
    fn hierarchies_include_all_cgroup_mounts() {
        let mounts = "30 25 0:26 / /cg/memory rw - cgroup cgroup rw,memory\n\
                      32 25 0:28 / /cg/freezer rw - cgroup cgroup rw,freezer\n\
                      33 25 0:29 / /cg/unified rw shared:9 - cgroup2 cgroup2 rw,nsdelegate\n\
                      34 25 0:30 / /cgroup rw - tmpfs tmpfs rw,memory\n";
        assert_eq!(hierarchies(mounts), ["/cg/memory", "/cg/unified"].map(PathBuf::from));
    }

    #[test]
    fn cgroup_v2_uses_the_nearest_delegating_folder() {
        let root = tempfile::tempdir().unwrap();
        let point = root.path().to_str().unwrap();
        let leaf = root.path().join("user/app/leaf");
        fs::create_dir_all(&leaf).unwrap();
        fs::write(leaf.join("cgroup.subtree_control"), "").unwrap();
        fs::write(root.path().join("user/app/cgroup.subtree_control"), "memory pids\n").unwrap();
        fs::write(root.path().join("cgroup.subtree_control"), "cpu memory pids\n").unwrap();
        let mounts = format!("30 25 0:26 / {point} rw - cgroup2 cgroup2 rw\n");
        let found = candidate_parents(&mounts, "0::/user/app/leaf\n");
        assert_eq!(found[0].folder, root.path().join("user/app"));
        assert_eq!(found[0].controllers, ["memory", "pids"]);
        assert_eq!(found[1].folder, root.path());
    }
}
