//! The carried agent as a file that can be executed.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use proctor_embedded_agent::{AGENT_BYTES, agent, agent_digest};
use proctor_types::{Fault, Layer};

/// Writes the agent to the cache, once per digest, and returns its path.
pub(crate) fn install(cache: &Path) -> Result<PathBuf, Fault> {
    if AGENT_BYTES == 0 {
        return Err(Fault::new(Layer::Sandbox, "this build carries no sandbox agent")
            .hint("build on Linux with libc.a (libc6-dev) installed"));
    }
    // A folder of its own, so that the process is named plainly `agentd` in the sandbox.
    let folder = cache.join(folder_name());
    let path = folder.join("agentd");
    if fs::metadata(&path).is_ok_and(|found| found.len() == AGENT_BYTES as u64) {
        return Ok(path);
    }
    write(&folder, &path).map_err(|error| {
        Fault::new(
            Layer::Sandbox,
            format!("write the sandbox agent to {}: {error}", path.display()),
        )
    })?;
    Ok(path)
}

/// The folder of this build's agent.
pub(crate) fn folder_name() -> String {
    format!("agentd-{}", &agent_digest()[..16])
}

fn write(folder: &Path, path: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(agent())?;
    file.as_file().set_permissions(fs::Permissions::from_mode(0o755))?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}
