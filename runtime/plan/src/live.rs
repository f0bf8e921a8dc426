//! The workers that currently use a run.

use std::{
    io::{self, ErrorKind},
    path::Path,
};

use proctor_cluster::Member;
use proctor_types::{UserError, first_of};

use crate::PlanError;

/// Returns the live workers of a run.
///
/// # Errors
/// The run directory cannot be written.
pub fn live(run: &Path) -> Result<Vec<Member>, PlanError> {
    proctor_cluster::live(run).map_err(unwritable)
}

/// Returns the error for a run directory that this user cannot write to.
pub fn unwritable(error: io::Error) -> PlanError {
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
pub fn expect_none(run: &Path) -> Result<(), PlanError> {
    let live = live(run)?;
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
        first_of(live.iter().map(name).collect())
    );
    let hint = format!(
        "wait for them, stop them with `proctor cancel {0}`, or start another with `proctor worker {0}`",
        run.display()
    );
    Err(UserError::new(what).hint(hint).into())
}
