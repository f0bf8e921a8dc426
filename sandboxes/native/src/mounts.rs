//! Defines the mounts of host directories in a sandbox, which come from the host base and from the
//! trial.

use std::{fs, os::unix::ffi::OsStrExt, path::Path};

use proctor_host::{absent::HostOverlay, host_base};
use proctor_sandbox_api::{Mount, wire::RawPath};
use proctor_types::{Fault, FaultCause, FaultLayer};
use proctor_wire::BindMount;

/// Returns the mounts of a host base and the paths to hide in them.
pub(crate) fn host_mounts() -> (Vec<BindMount>, Vec<RawPath>) {
    let (shown, hidden) = (host_base::visible_folders(), host_base::hidden_folders());
    let binds =
        shown.iter().map(|path| BindMount::new(to_raw_path(path), to_raw_path(path))).collect();
    (binds, hidden.iter().map(|path| to_raw_path(path)).collect())
}

/// Adds mounts with whiteouts. If another mount covers a directory's parent, the directory's own
/// mount comes after it.
pub(crate) fn add_overlays(binds: &mut Vec<BindMount>, overlays: &[HostOverlay]) {
    for cut in overlays {
        let (at, marks) = (to_raw_path(&cut.mount_point), Some(to_raw_path(&cut.whiteouts)));
        match binds.iter_mut().find(|bind| bind.to == at) {
            Some(bind) => bind.marks = marks,
            None => binds.push(BindMount { from: at.clone(), to: at, marks }),
        }
    }
}

/// Returns read-only mounts of the host directories that a trial's sandbox uses.
pub(crate) fn mount_binds(mounts: &[Mount]) -> Result<Vec<BindMount>, Fault> {
    let view = |mount: &Mount| {
        let found = fs::canonicalize(&mount.folder);
        let folder = found.map_err(|error| {
            let what = format!(
                "cannot mount {} at {}: {error}",
                mount.folder.display(),
                mount.mount_point
            );
            Fault::new(FaultLayer::Sandbox, what)
                .cause(FaultCause::from_io_error(&error))
                .hint("the folder was removed during the run; `proctor resume` recreates it")
        })?;
        Ok(BindMount::new(to_raw_path(&folder), mount.mount_point.clone()))
    };
    mounts.iter().map(view).collect()
}

pub(crate) fn to_raw_path(path: &Path) -> RawPath {
    RawPath::new(path.as_os_str().as_bytes())
}
