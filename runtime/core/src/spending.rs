//! What was paid according to the journals: for every try, discarded ones included.

use std::{io::ErrorKind, path::Path};

use proctor_record::{TrialDir, read_journal};
use proctor_types::{EarlierTries, Event, Fault, RequestClass, Spent};

use crate::recorder::record_fault;

/// What one try was billed. Its answers after a limit are among the tokens and the cost here: a
/// provider bills them like any other.
///
/// # Errors
/// A journal that cannot be read. A damaged one counts as far as it can be; one that was never
/// begun is nothing.
pub(crate) fn spent_in(journal: &Path) -> Result<Spent, Fault> {
    let mut spent = Spent::default();
    // A folder in its place is damage, which the check of the trial names.
    if !journal.is_file() {
        return Ok(spent);
    }
    for envelope in read_journal(journal).map_err(record_fault)?.events {
        match envelope.event {
            // What the other trial had spent was paid in its own run.
            Event::TrialForked { .. } => spent = Spent::default(),
            // Steps are counted by the answers below; tokens and cost by every go that was billed.
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

/// The tries of a trial that do not count: those that were put aside, and the latest one unless it
/// `ended` (it is under way, or was killed and will be put aside).
///
/// # Errors
/// A journal or a folder that cannot be read.
pub fn earlier_tries(dir: &TrialDir, ended: bool) -> Result<EarlierTries, Fault> {
    let mut earlier = EarlierTries::default();
    let mut journals = Vec::new();
    if !ended {
        journals.push(dir.trajectory());
    }
    match std::fs::read_dir(dir.tries()) {
        Ok(tries) => {
            for entry in tries {
                journals.push(entry.map_err(record_fault)?.path().join("trajectory.jsonl"));
            }
        }
        // The check of the trial says what lies in the folder's place.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
        Err(error) => return Err(record_fault(error)),
    }
    for journal in journals.iter().filter(|journal| journal.is_file()) {
        earlier.tries += 1;
        earlier.spent.merge(&spent_in(journal)?);
    }
    Ok(earlier)
}

/// What every try of a trial was billed together.
pub(crate) fn spent_by(dir: &TrialDir) -> Result<Spent, Fault> {
    Ok(earlier_tries(dir, false)?.spent)
}
