//! Installs the embedded agent as an executable file.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use proctor_embedded_agent::{AGENT_BYTES, agent, agent_digest};
use proctor_types::{Fault, FaultLayer};

/// Writes the agent to the cache unless it is already there, and returns its path.
pub(crate) fn install(cache: &Path) -> Result<PathBuf, Fault> {
    if AGENT_BYTES == 0 {
        return Err(Fault::new(FaultLayer::Sandbox, "this build has no sandbox agent")
            .hint("build on Linux with libc.a (libc6-dev) installed"));
    }
    // Use a separate directory for each version, so that the process in the sandbox is named just
    // `agentd`.
    let folder = cache.join(folder_name());
    let path = folder.join("agentd");
    if is_written(&path) {
        return Ok(path);
    }
    write(&folder, &path).map_err(|error| {
        Fault::new(
            FaultLayer::Sandbox,
            format!("cannot write the sandbox agent to {}: {error}", path.display()),
        )
    })?;
    Ok(path)
}

/// Returns the name of the directory that contains this build's agent.
pub(crate) fn folder_name() -> String {
    format!("agentd-{}", &agent_digest()[..16])
}

fn is_written(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.len() == AGENT_BYTES as u64)
}

/// Name prefix of files that are still being written.
const TEMPORARY_PREFIX: &str = ".tmp";

/// Writes the agent under a lock on the directory, so that there is one writer at a time. The
/// kernel releases a killed writer's lock. So partial files that are found under the lock are
/// stale, and they are removed.
fn write(folder: &Path, path: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let lock = File::open(folder)?;
    // If the file system does not support locks, a partial file may belong to another writer, so
    // keep it.
    if lock.lock().is_ok() {
        if is_written(path) {
            return Ok(());
        }
        remove_half_written(folder);
    }
    let mut file = tempfile::Builder::new().prefix(TEMPORARY_PREFIX).tempfile_in(folder)?;
    file.write_all(agent())?;
    file.as_file().set_permissions(fs::Permissions::from_mode(0o755))?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Removes partial files. Ignores errors, because the files are harmless.
fn remove_half_written(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(TEMPORARY_PREFIX) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::MetadataExt, thread, time::Duration};

    use super::*;

    fn file_names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn agent_write_removes_leftovers_of_a_killed_writer() {
        let cache = tempfile::tempdir().unwrap();
        let folder = cache.path().join("agentd-0");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(".tmpt0M0Lz"), "half").unwrap();
        let path = folder.join("agentd");
        write(&folder, &path).unwrap();
        assert_eq!(file_names(&folder), ["agentd"]);
        assert!(fs::read(&path).unwrap() == agent());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o755);
    }

    #[test]
    fn agent_is_written_once_by_concurrent_processes() {
        let cache = tempfile::tempdir().unwrap();
        let (folder, half) = (cache.path().to_owned(), cache.path().join(".tmpother"));
        let path = folder.join("agentd");
        fs::write(&half, agent()).unwrap();
        let first = File::open(&folder).unwrap();
        first.lock().unwrap();
        let next = thread::spawn({
            let (folder, path) = (folder.clone(), path.clone());
            move || write(&folder, &path)
        });
        thread::sleep(Duration::from_millis(100));
        assert_eq!(file_names(&folder), [".tmpother"], "files of other writers are kept");
        fs::rename(&half, &path).unwrap();
        let written = fs::metadata(&path).unwrap().ino();
        drop(first);
        next.join().unwrap().unwrap();
        assert_eq!(file_names(&folder), ["agentd"]);
        assert_eq!(fs::metadata(&path).unwrap().ino(), written, "the agent was written again");
    }
}
