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
/// The run directory cannot be written.
pub fn live_workers(run: &Path) -> Result<Vec<Member>, PlanError> {
    proctor_cluster::live_members(run).map_err(unwritable_error)
}

/// Returns the error for a run directory that this user cannot write to.
pub fn unwritable_error(error: io::Error) -> PlanError {
    match error.kind() {
        ErrorKind::PermissionDenied => {
            let hint = "workers must be able to write to the run directory: make it writable for your user or group";
            UserError::new(error.to_string()).hint(hint).into()
        }
        _ => error.into(),
    }
}

/// Rejects changes to a run while workers use it.
///
/// # Errors
/// A worker uses the run, or the run directory cannot be written.
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
        "wait for them, stop them with `proctor cancel {0}`, or start another with `proctor worker {0}`",
        run.display()
    );
    Err(UserError::new(what).hint(hint).into())
}
