//! Removes files that sandboxes wrote as other users. Needed only if Proctor runs as an
//! unprivileged user with a subordinate id range.
//!
//! On the host, these files are owned by other ids in that range. Only root in a namespace with the
//! same id map can remove them, so the sandbox agent does it.

use std::{
    io::{self, ErrorKind, Write as _},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
};

use proctor_wire::Removal;

use crate::{ids, mounts::to_raw_path};

/// The agent of the most recently created back end. This is a global variable, because otherwise
/// the agent would have to be passed to every function that removes a directory, including a `Drop`
/// implementation.
static AGENT_PATH: Mutex<Option<PathBuf>> = Mutex::new(None);

pub(crate) fn set_agent(agent: &Path) {
    *AGENT_PATH.lock().unwrap_or_else(PoisonError::into_inner) = Some(agent.to_owned());
}

/// Removes a directory tree. Blocking.
pub(crate) fn remove_mapped_tree(path: &Path) -> io::Result<()> {
    let agent = AGENT_PATH.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (ids, missing) = ids::id_map();
    let refused = |why: String| io::Error::new(ErrorKind::PermissionDenied, why);
    let Some(agent) = agent else {
        return Err(refused("the directory contains files of other users".to_owned()));
    };
    if let Some(why) = missing {
        return Err(refused(format!("the directory contains files of other users; {why}")));
    }
    let removal = serde_json::to_vec(&Removal { ids, path: to_raw_path(path) })?;
    let mut child = Command::new(agent)
        .arg("remove")
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    // The agent reads until the end of its input, which dropping the pipe signals.
    let told = child.stdin.take().map_or(Ok(()), |mut input| input.write_all(&removal));
    let done = child.wait_with_output()?;
    told?;
    match done.status.success() {
        true => Ok(()),
        false => Err(refused(String::from_utf8_lossy(&done.stderr).trim().to_owned())),
    }
}
