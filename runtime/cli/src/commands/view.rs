//! `proctor view`: serves runs as pages on loopback, or writes the pages as files.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use proctor_record::{RecordError, RunDir};
use proctor_types::count_with_noun;
use proctor_viewer::{Pages, Server, ViewError};

use crate::{
    commands::output_folder::check_new_or_empty,
    error::{CommandError, UserError},
    mask::SecretMask,
    print::print_result,
};

/// Replaces each folder of runs by its runs, in order of their names. Anything else stays in the
/// list.
fn expand_run_folders(paths: &[PathBuf]) -> Vec<PathBuf> {
    let expand = |path: &PathBuf| {
        if is_run(path) {
            return vec![path.clone()];
        }
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let mut runs: Vec<PathBuf> =
            entries.map(|entry| entry.path()).filter(|path| is_run(path)).collect();
        runs.sort();
        // Keep a folder without runs, so that opening it fails with a reason.
        if runs.is_empty() { vec![path.clone()] } else { runs }
    };
    paths.iter().flat_map(expand).collect()
}

/// Whether a folder is a run directory. A run whose plan was lost is one, too.
fn is_run(path: &Path) -> bool {
    matches!(RunDir::open_read_only(path), Ok(_) | Err(RecordError::PlanLost { .. }))
}

/// Prints a warning for each run that only appears on the dashboard.
fn warn_about(unreadable_runs: &[String]) {
    for error in unreadable_runs {
        tell!("warning: {error}; the dashboard shows this error");
    }
}

/// Writes the pages of the runs to a directory.
pub fn view_as_files(
    paths: &[PathBuf],
    out: &Path,
    secret_mask: &SecretMask,
) -> Result<ExitCode, CommandError> {
    let pages = Pages::open(&expand_run_folders(paths))?;
    check_new_or_empty(out)?;
    warn_about(&pages.unreadable_runs());
    let count = pages.write_pages(out, &|file, page| secret_mask.mask_bytes(file, page))?;
    secret_mask.print_summary();
    print_result(&format!("wrote {} to {}\n", count_with_noun(count, "file"), out.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Serves the runs until the user interrupts the command. The first line of standard output is the
/// URL.
pub async fn view(paths: &[PathBuf], port: u16) -> Result<ExitCode, CommandError> {
    let runs = expand_run_folders(paths);
    let server = Server::bind(&runs, port).await.map_err(|error| match error {
        ViewError::Port { .. } => {
            UserError::new(error.to_string()).hint("omit --port to use a free port").into()
        }
        other => CommandError::from(other),
    })?;
    print_result(&format!("{}\n", server.url()))?;
    warn_about(&server.unreadable_runs());
    tell!("serving {}; press Ctrl-C to stop", count_with_noun(runs.len(), "run"));
    server.serve(tokio::signal::ctrl_c()).await;
    Ok(ExitCode::SUCCESS)
}
