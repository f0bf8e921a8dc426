//! Computes the billed tokens and cost of every try from the journals, including discarded tries.

use std::{fs, io::ErrorKind, path::Path};

use proctor_types::{EarlierTries, Event, RequestClass, Spending};

use crate::{RecordError, TrialDir, read_journal};

/// Returns the billed spending of one try. Tokens and cost include responses after a limit was
/// reached, because providers bill these too.
///
/// # Errors
/// Fails if the journal cannot be read. If the journal is corrupt, only its readable part is
/// counted. A missing journal counts as zero.
pub fn read_journal_spending(journal: &Path) -> Result<Spending, RecordError> {
    let mut spent = Spending::default();
    // If a directory exists in place of the journal, the trial's check reports the corruption.
    if !journal.is_file() {
        return Ok(spent);
    }
    for envelope in read_journal(journal)?.events {
        match envelope.event {
            // Discard the spending so far: the run of the trial that was forked already paid for
            // these responses.
            Event::TrialForked { .. } => spent = Spending::default(),
            // Tokens and cost are counted for every billed attempt. Steps are counted from the
            // responses below.
            Event::ModelAttempted { usage: Some(usage), cost_usd, .. } => {
                spent.add(RequestClass::Main, &usage, cost_usd, false);
            }
            Event::ModelAnswered { .. } => spent.steps += 1,
            Event::RequestServed {
                class: RequestClass::Side,
                delivered,
                usage: Some(usage),
                ..
            } => {
                spent.side_requests += u64::from(delivered);
                spent.side_input_tokens += usage.input;
                spent.side_output_tokens += usage.output;
            }
            Event::RequestServed {
                class: RequestClass::Main,
                conversation: Some(_),
                delivered: true,
                ..
            } => spent.sub_agent_steps += 1,
            _ => {}
        }
    }
    Ok(spent)
}

/// Returns the tries of a trial that do not count toward its result: those that were set aside, and
/// the latest one unless it has ended (`has_ended`). A latest try that has not ended is still
/// running, or was killed and will be set aside.
///
/// # Errors
/// Fails if a journal or a directory cannot be read.
pub fn read_earlier_tries(dir: &TrialDir, has_ended: bool) -> Result<EarlierTries, RecordError> {
    let mut earlier = EarlierTries::default();
    let mut journals = Vec::new();
    if !has_ended {
        journals.push(dir.trajectory_path());
    }
    let folder = dir.tries_dir();
    match fs::read_dir(&folder) {
        Ok(tries) => {
            for entry in tries {
                let entry = entry.map_err(RecordError::io(&folder, "cannot be read"))?;
                journals.push(entry.path().join("trajectory.jsonl"));
            }
        }
        // If the path is not a directory, the trial's check reports that.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
        Err(error) => return Err(RecordError::io(&folder, "cannot be read")(error)),
    }
    for journal in journals.iter().filter(|journal| journal.is_file()) {
        earlier.tries += 1;
        earlier.spent.merge(&read_journal_spending(journal)?);
    }
    Ok(earlier)
}

/// Returns the total billed spending of all tries of a trial.
///
/// # Errors
/// Fails in the same cases as [`read_earlier_tries`].
pub fn read_trial_spending(dir: &TrialDir) -> Result<Spending, RecordError> {
    Ok(read_earlier_tries(dir, false)?.spent)
}
