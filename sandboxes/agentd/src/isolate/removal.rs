//! Removes a host tree whose files belong to mapped ids.

use std::{
    fs,
    io::{self, Read, Write},
};

use proctor_wire::Removal;

use super::{ids, mounts::as_path};

/// Removes the tree whose path is on standard input. Returns the exit status.
pub fn remove() -> i32 {
    match try_remove() {
        Ok(()) => 0,
        Err(error) => {
            let _ = writeln!(io::stderr(), "agentd remove: {error}");
            1
        }
    }
}

fn try_remove() -> io::Result<()> {
    let mut text = Vec::new();
    io::stdin().lock().read_to_end(&mut text)?;
    let removal: Removal = serde_json::from_slice(&text)?;
    // Root in a user namespace may remove the files of all its mapped ids.
    ids::enter_user_namespace(removal.ids)
        .map_err(|failure| io::Error::other(failure.to_string()))?;
    fs::remove_dir_all(as_path(&removal.path))
}
