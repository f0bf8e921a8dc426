//! Checks the folder into which a command writes its files.

use std::{fs, path::Path};

use crate::error::UserError;

/// Returns an error unless the directory is empty or does not exist yet.
pub fn check_new_or_empty(out: &Path) -> Result<(), UserError> {
    if fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(UserError::new(format!("{} is not empty", out.display()))
            .hint("choose a new or empty folder"));
    }
    Ok(())
}
