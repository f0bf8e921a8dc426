//! Examines a trial's record.

use proctor_record::Blobs;
use proctor_types::{Envelope, Fault, Task, TestNames};

use crate::{
    apply::apply_rules,
    calls::shell_calls,
    command::WrittenFiles,
    content,
    edits::find_test_edits,
    finding::Findings,
    rules::{RuleFile, Rules},
    solution_names::SolutionNames,
    upstream::ledger_findings,
};

/// The input of [`examine`].
#[derive(Debug, Clone, Copy)]
pub struct ExaminationInput<'a> {
    pub task: &'a Task,
    /// The naming patterns of tests. The grader uses the same patterns, so forensics and grading
    /// always agree on which files are tests.
    pub names: &'a TestNames,
    /// The events of the counted try. Empty if there is only a patch.
    pub events: &'a [Envelope],
    /// The store that contains the snapshots that the events refer to.
    pub blobs: Option<&'a Blobs>,
    pub patch: &'a [u8],
}

impl ExaminationInput<'_> {
    /// Returns only the content match findings, which are part of the result of [`examine`]. Used
    /// to measure the cost of content match.
    ///
    /// # Errors
    /// Returns a fault if the built-in rules or a referenced snapshot cannot be read.
    pub fn examine_content(&self) -> Result<Findings, Fault> {
        let findings = content::compare_content(self.task, self.events, self.blobs, self.patch)?;
        Ok(Findings::from_findings(findings, &RuleFile::get()?.kinds))
    }
}

/// Finds behavior in the record that affects how to interpret the score.
///
/// # Errors
/// Returns a fault if the built-in rules or a referenced snapshot cannot be read.
pub fn examine(input: &ExaminationInput<'_>) -> Result<Findings, Fault> {
    let names = input.names;
    let file = RuleFile::get()?;
    let subject = SolutionNames::from_task(input.task, names)?;
    let rules = Rules::specialize(&subject)?;
    let mut findings = Vec::new();
    let mut written_files = WrittenFiles::new();
    for call in shell_calls(input.events, file) {
        findings.extend(apply_rules(&call, &rules, &subject, &mut written_files));
    }
    findings.extend(ledger_findings(input.events));
    findings.extend(content::compare_content(input.task, input.events, input.blobs, input.patch)?);
    findings.extend(find_test_edits(input.task, names, input.events, input.blobs, input.patch)?);
    Ok(Findings::from_findings(findings, &file.kinds))
}
