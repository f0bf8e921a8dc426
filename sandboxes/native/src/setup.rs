//! Provides files from the host while an environment is set up.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use proctor_host::host_base;
use proctor_sandbox_api::Base;
use proctor_wire::BindMount;

use crate::mounts::to_raw_path;

/// Returns mounts of the host's registry settings, certificates and resolver configuration. The
/// mounts end with the setup, so nothing remains in the layer.
pub(crate) fn setup_binds(folder: &Path, base: &Base) -> io::Result<Vec<BindMount>> {
    fs::create_dir_all(folder)?;
    let mut binds = Vec::new();
    for (index, (to, bytes)) in host_base::setup_files().into_iter().enumerate() {
        let from = folder.join(index.to_string());
        fs::write(&from, bytes)?;
        binds.push(BindMount::new(to_raw_path(&from), to_raw_path(&to)));
    }
    if !matches!(base, Base::Host) {
        // A host base already contains the wheel directory if it is below `/opt`.
        let wheels = std::env::var("PIP_FIND_LINKS").map(PathBuf::from);
        if let Ok(wheels) = wheels
            && wheels.is_absolute()
            && wheels.is_dir()
        {
            binds.push(BindMount::new(to_raw_path(&wheels), to_raw_path(&wheels)));
        }
    }
    Ok(binds)
}

/// Removes the empty files in a layer's tree that served as mount points.
pub(crate) fn sweep_mount_points(tree: &Path, binds: &[BindMount]) -> io::Result<()> {
    for bind in binds {
        let Ok(inner) = std::str::from_utf8(bind.to.as_bytes()) else { continue };
        let path = tree.join(inner.trim_start_matches('/'));
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_file() && found.len() == 0 => fs::remove_file(&path)?,
            Ok(found) if found.is_dir() => {
                // Removing a directory fails if it is not empty, as intended.
                let _ = fs::remove_dir(&path);
            }
            _ => {}
        }
    }
    Ok(())
}
