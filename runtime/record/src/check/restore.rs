//! Restores files whose content the record has elsewhere.

use super::{
    damage::{Damage, Remedy, Source},
    trial::Checked,
};
use crate::{Blobs, RecordError, TrialDir, disk, reading};

impl TrialDir {
    /// Restores what it can and keeps each damaged file as `NAME.damaged`. Returns the restored files.
    ///
    /// # Errors
    /// The source of a file has been damaged since the check, or writing fails.
    pub fn restore(
        &self,
        blobs: &Blobs,
        checked: &mut Checked,
    ) -> Result<Vec<Damage>, RecordError> {
        let all = std::mem::take(&mut checked.damage);
        let (restorable, rest): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|one| matches!(one.remedy, Remedy::Restore(_)));
        checked.damage = rest;
        for damage in &restorable {
            let Remedy::Restore(source) = &damage.remedy else { continue };
            let bytes = match source {
                Source::Blob(hash) => blobs.get(hash)?,
                Source::Journal => last_field(&self.trajectory(), "outcome")?,
                Source::Gradings => last_field(&self.gradings(), "verdict")?,
            };
            disk::put_aside(&damage.path)?;
            disk::write_whole(&damage.path, &bytes)?;
        }
        Ok(restorable)
    }
}

fn last_field(journal: &std::path::Path, field: &str) -> Result<Vec<u8>, RecordError> {
    let bytes = disk::read(journal).map_err(RecordError::io(journal, "cannot be read"))?;
    let text = reading::last_field(&bytes, field).ok_or_else(|| RecordError::Corrupt {
        path: journal.to_owned(),
        why: format!("the last line has no {field}"),
        hint: crate::error::FROM_A_COPY,
    })?;
    Ok(format!("{text}\n").into_bytes())
}
