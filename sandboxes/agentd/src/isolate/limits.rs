//! Sets process limits and joins the sandbox's cgroups.

use std::{fs, path::Path};

use proctor_wire::{Defense, RawPath, SandboxLayout};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{
    failure::{Failure, FailureContext},
    mounts::as_path,
};

/// Adds this process to the cgroups. The process joins them before it has a child or a
/// namespace, so no process of the sandbox is ever outside them.
pub(super) fn join_cgroups(cgroups: &[RawPath]) -> Result<(), Failure> {
    for file in cgroups {
        let file: &Path = as_path(file);
        fs::write(file, "0").context(format_args!("join the cgroup {}", file.display()))?;
    }
    Ok(())
}

/// Sets the sandbox's resource limits. Returns an entry for its enforcement if a limit is lower
/// than requested.
pub(super) fn set_resource_limits(layout: &SandboxLayout) -> Result<Option<String>, Failure> {
    // Disable core dumps, because core_pattern may make the kernel start a program on the host.
    if !layout.without.contains(&Defense::CoreDumps) {
        let none = Rlimit { current: Some(0), maximum: Some(0) };
        setrlimit(Resource::Core, none).context("disable core dumps")?;
    }
    let files = getrlimit(Resource::Nofile);
    let ceiling = files.maximum.map_or(65_536, |most| most.min(65_536));
    let files = Rlimit { current: Some(ceiling), maximum: Some(ceiling) };
    setrlimit(Resource::Nofile, files).context("limit open files")?;
    let Some(wanted) = layout.process_limit else { return Ok(None) };
    // If the user's own limit is lower, keep it, because only the machine's root may raise it.
    let processes = getrlimit(Resource::Nproc).maximum.map_or(wanted, |most| most.min(wanted));
    let most = Rlimit { current: Some(processes), maximum: Some(processes) };
    setrlimit(Resource::Nproc, most).context("limit processes")?;
    Ok((processes < wanted).then(|| {
        format!("processes: {processes} instead of {wanted} (the user's own limit, `ulimit -u`)")
    }))
}
