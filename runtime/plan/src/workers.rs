//! The workers that currently use a run.

use std::{
    io::{self, ErrorKind},
    path::Path,
};

use proctor_cluster::Member;
use proctor_types::{UserError, join_first_few};

use crate::PlanError;

/// Returns the live workers of a run.
///
/// # Errors
/// Fails if the run directory cannot be written.
pub fn live_workers(run: &Path) -> Result<Vec<Member>, PlanError> {
    proctor_cluster::find_live_members(run).map_err(unwritable_error)
}

/// Converts an I/O error to a usage error if the user lacks permission to write to the run
/// directory.
pub fn unwritable_error(error: io::Error) -> PlanError {
    match error.kind() {
        ErrorKind::PermissionDenied => {
            let hint = "workers must be able to write to the run directory: make it writable by your user or group";
            UserError::new(error.to_string()).hint(hint).into()
        }
        _ => error.into(),
    }
}

/// Rejects changes to a run while workers use it.
///
/// # Errors
/// Fails if a worker uses the run, or if the run directory cannot be written.
pub fn reject_live_workers(run: &Path) -> Result<(), PlanError> {
    let live = live_workers(run)?;
    if live.is_empty() {
        return Ok(());
    }
    let name = |one: &Member| match &one.job {
        Some(job) => format!("job {job} on {}", one.host),
        None => format!("process {} on {}", one.pid(), one.host),
    };
    let what = format!(
        "{}: {} of the run: {}",
        run.display(),
        match live.len() {
            1 => "1 worker runs trials".to_owned(),
            many => format!("{many} workers run trials"),
        },
        join_first_few(live.iter().map(name).collect())
    );
    let hint = format!(
        "wait until the workers finish, stop them with `proctor cancel {0}`, or start another worker with `proctor worker {0}`",
        run.display()
    );
    Err(UserError::new(what).hint(hint).into())
}
