//! Detects runs that contain the same trials.

use std::{
    collections::{BTreeSet, HashMap, hash_map::Entry},
    path::{Path, PathBuf},
};

use proctor_record::{RunDir, trial_lookup::planned_trials};
use proctor_types::{TrialId, count_with_noun};

use crate::error::{CommandError, UserError};

/// Returns an error if trials would count twice because the list contains a run twice, or a run and
/// its copy.
pub fn reject_run_copies(runs: &[PathBuf]) -> Result<(), CommandError> {
    let mut places = BTreeSet::new();
    for run in runs {
        if !places.insert(run.canonicalize().unwrap_or_else(|_| run.clone())) {
            let what = format!("{} is listed twice", run.display());
            return Err(UserError::new(what).hint("its trials would count twice").into());
        }
    }
    if runs.len() < 2 {
        return Ok(());
    }
    let mut seen: HashMap<(TrialId, Vec<u8>), &Path> = HashMap::new();
    for path in runs {
        let run = RunDir::open_read_only(path).map_err(CommandError::from_record_error)?;
        let record = run.read_run()?;
        let (mut copies, mut original) = (0_usize, None);
        for found in planned_trials(&record) {
            let id = found.id();
            let Some(beginning) = run.first_journal_line(&id) else { continue };
            match seen.entry((id, beginning)) {
                Entry::Occupied(first) => {
                    copies += 1;
                    original.get_or_insert(*first.get());
                }
                Entry::Vacant(place) => {
                    place.insert(path);
                }
            }
        }
        if let Some(original) = original {
            let (copy, original) = (path.display(), original.display());
            let trials = count_with_noun(copies, "trial");
            let what = format!("{copy} is a copy of {original}: both contain the same {trials}");
            let hint = "pass only one of the two; otherwise their trials would count twice";
            return Err(UserError::new(what).hint(hint).into());
        }
    }
    Ok(())
}
