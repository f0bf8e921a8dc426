//! Examines a trial's record.

use proctor_record::Blobs;
use proctor_types::{Envelope, Fault, Task, TestNames};

use crate::{
    apply::{Written, apply},
    calls::calls,
    content,
    edits::edits,
    finding::Findings,
    rules::{RuleFile, Rules},
    subject::Subject,
    upstream::requests,
};

/// The input of an examination.
#[derive(Debug, Clone, Copy)]
pub struct Examiner<'a> {
    pub task: &'a Task,
    /// Naming patterns of tests. Shared with the grader, so that both always agree.
    pub names: &'a TestNames,
    /// Events of the try that counts. Empty if there is only a patch.
    pub events: &'a [Envelope],
    /// The store of the snapshots that the events refer to.
    pub blobs: Option<&'a Blobs>,
    pub patch: &'a [u8],
}

impl Examiner<'_> {
    /// Returns only the content match findings, a part of [`examine`]. Used to measure its cost.
    ///
    /// # Errors
    /// Returns a fault if the built-in rules or a referenced snapshot cannot be read.
    pub fn content(&self) -> Result<Findings, Fault> {
        let found = content::compare(self.task, self.events, self.blobs, self.patch)?;
        Ok(Findings::of(found, &RuleFile::get()?.kinds))
    }
}

/// Finds conduct in the record that matters for the interpretation of the score.
///
/// # Errors
/// Returns a fault if the built-in rules or a referenced snapshot cannot be read.
pub fn examine(look_at: &Examiner<'_>) -> Result<Findings, Fault> {
    let names = look_at.names;
    let file = RuleFile::get()?;
    let subject = Subject::of(look_at.task, names)?;
    let rules = Rules::of(&subject)?;
    let mut found = Vec::new();
    let mut written = Written::new();
    for call in calls(look_at.events, file) {
        found.extend(apply(&call, &rules, &subject, &mut written));
    }
    found.extend(requests(look_at.events));
    found.extend(content::compare(look_at.task, look_at.events, look_at.blobs, look_at.patch)?);
    found.extend(edits(look_at.task, names, look_at.events, look_at.blobs, look_at.patch)?);
    Ok(Findings::of(found, &file.kinds))
}
