//! Restores corrupt files from other parts of the record.

use super::{
    checked_trial::CheckedTrial,
    corruption::{Corruption, Remedy, RestoreSource},
};
use crate::{Blobs, RecordError, TrialDir, disk, journal_reader};

impl TrialDir {
    /// Restores each file whose content is available elsewhere in the record. Keeps each corrupt
    /// file as `NAME.damaged`. Returns the restored files.
    ///
    /// # Errors
    /// Fails if the source of a file has become corrupt since the check, or if a file cannot be
    /// written.
    pub fn restore(
        &self,
        blobs: &Blobs,
        checked_trial: &mut CheckedTrial,
    ) -> Result<Vec<Corruption>, RecordError> {
        let all = std::mem::take(&mut checked_trial.corruptions);
        let (restorable, rest): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|one| matches!(one.remedy, Remedy::Restore(_)));
        checked_trial.corruptions = rest;
        for damage in &restorable {
            let Remedy::Restore(source) = &damage.remedy else { continue };
            let bytes = match source {
                RestoreSource::Blob(hash) => blobs.get(hash)?,
                RestoreSource::TrialJournal => read_last_field(&self.trajectory_path(), "outcome")?,
                RestoreSource::GradingJournal => read_last_field(&self.gradings_path(), "verdict")?,
            };
            disk::move_aside(&damage.path)?;
            disk::write_atomically(&damage.path, &bytes)?;
        }
        Ok(restorable)
    }
}

fn read_last_field(journal: &std::path::Path, field: &str) -> Result<Vec<u8>, RecordError> {
    let bytes =
        disk::read_regular_file(journal).map_err(RecordError::io(journal, "cannot be read"))?;
    let text =
        journal_reader::last_line_field(&bytes, field).ok_or_else(|| RecordError::Corrupt {
            path: journal.to_owned(),
            why: format!("the last line has no {field}"),
            hint: crate::error::RESTORE_FROM_COPY_HINT,
        })?;
    Ok(format!("{text}\n").into_bytes())
}
