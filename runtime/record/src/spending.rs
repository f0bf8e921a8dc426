//! What was paid according to the journals, for every try, discarded ones included.

use std::{fs, io::ErrorKind, path::Path};

use proctor_types::{EarlierTries, Event, RequestClass, Spent};

use crate::{RecordError, TrialDir, read_journal};

/// What one try was billed. Tokens and cost include responses after a limit, because a provider
/// bills them, too.
///
/// # Errors
/// The journal cannot be read. A damaged journal counts as far as it is readable; a missing one
/// counts as nothing.
pub fn spent_in(journal: &Path) -> Result<Spent, RecordError> {
    let mut spent = Spent::default();
    // The trial's check reports a directory in its place as damage.
    if !journal.is_file() {
        return Ok(spent);
    }
    for envelope in read_journal(journal)?.events {
        match envelope.event {
            // The other trial's spending was paid in its own run.
            Event::TrialForked { .. } => spent = Spent::default(),
            // Steps are counted by the responses below, tokens and cost by every billed attempt.
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

/// The tries of a trial that do not count: those that were set aside, and the latest one unless it
/// `ended`. If it has not ended, it is running, or was killed and will be set aside.
///
/// # Errors
/// A journal or a directory cannot be read.
pub fn earlier_tries(dir: &TrialDir, ended: bool) -> Result<EarlierTries, RecordError> {
    let mut earlier = EarlierTries::default();
    let mut journals = Vec::new();
    if !ended {
        journals.push(dir.trajectory());
    }
    let folder = dir.tries();
    match fs::read_dir(&folder) {
        Ok(tries) => {
            for entry in tries {
                let entry = entry.map_err(RecordError::io(&folder, "cannot be read"))?;
                journals.push(entry.path().join("trajectory.jsonl"));
            }
        }
        // The trial's check reports what occupies the directory's place.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
        Err(error) => return Err(RecordError::io(&folder, "cannot be read")(error)),
    }
    for journal in journals.iter().filter(|journal| journal.is_file()) {
        earlier.tries += 1;
        earlier.spent.merge(&spent_in(journal)?);
    }
    Ok(earlier)
}

/// The total billed to all tries of a trial.
///
/// # Errors
/// As [`earlier_tries`].
pub fn spent_by(dir: &TrialDir) -> Result<Spent, RecordError> {
    Ok(earlier_tries(dir, false)?.spent)
}
