//! Computes the billed tokens and cost of every try from the journals, including discarded tries.

use std::{fs, io::ErrorKind, os::unix::fs::MetadataExt as _, path::Path};

use proctor_types::{EarlierTries, Event, Outcome, RequestClass, Spending};

use crate::{EventReader, RecordError, TrialDir, read_journal};

/// The kinds of the events that [`add_event`] counts.
const COUNTED_KINDS: [&str; 4] =
    ["trial_forked", "model_attempted", "model_answered", "request_served"];

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
        add_event(&mut spent, &envelope.event);
    }
    Ok(spent)
}

fn add_event(spent: &mut Spending, event: &Event) {
    match event {
        // Discard the spending so far: the run of the trial that was forked already paid for these
        // responses.
        Event::TrialForked { .. } => *spent = Spending::default(),
        // Tokens and cost are counted for every billed attempt. Steps are counted from the
        // responses below.
        Event::ModelAttempted { usage: Some(usage), cost_usd, .. } => {
            spent.add(RequestClass::Main, usage, *cost_usd, false);
        }
        Event::ModelAnswered { .. } => spent.steps += 1,
        Event::RequestServed {
            class: RequestClass::Side, delivered, usage: Some(usage), ..
        } => {
            spent.side_requests += u64::from(*delivered);
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

/// The billed spending of a trial that may still be running. It equals what a report of the trial
/// shows as paid.
#[derive(Debug, Default)]
pub struct TrialSpending {
    /// The inode of the journal that `latest_try` comes from. `None` if it comes from an outcome.
    inode: Option<u64>,
    /// How much of this journal has been read.
    offset: u64,
    line_count: usize,
    latest_try: Spending,
    earlier_tries: Spending,
}

impl TrialSpending {
    /// Reads the spending again. Of a journal that has grown, only the new lines are read.
    /// `outcome` is the outcome of the latest try, if it has ended.
    ///
    /// # Errors
    /// Fails if a journal or a directory cannot be read. Corrupt lines are not counted.
    pub fn update(&mut self, dir: &TrialDir, outcome: Option<&Outcome>) -> Result<(), RecordError> {
        if let Some(outcome) = outcome {
            let earlier_tries = read_earlier_tries(dir, true)?.spent;
            *self = Self { latest_try: outcome.spent, earlier_tries, ..Self::default() };
            return Ok(());
        }
        let journal = dir.trajectory_path();
        let found = journal.metadata().map_err(RecordError::io(&journal, "cannot be read"))?;
        // A new try has a new journal. So has a trial that another worker took over.
        if self.inode != Some(found.ino()) || found.len() < self.offset {
            let earlier_tries = read_earlier_tries(dir, true)?.spent;
            *self = Self { inode: Some(found.ino()), earlier_tries, ..Self::default() };
        }
        let mut lines = EventReader::open_at(&journal, self.offset, self.line_count)?;
        for line in lines.by_ref().flatten() {
            // Don't parse the other lines, because they may contain megabytes of tool output.
            if COUNTED_KINDS.contains(&line.kind.as_str())
                && let Ok(envelope) = line.parse_event()
            {
                add_event(&mut self.latest_try, &envelope.event);
            }
        }
        (self.offset, self.line_count) = (lines.offset(), lines.line_count());
        Ok(())
    }

    /// Returns the spending of all tries.
    pub fn total(&self) -> Spending {
        let mut all = self.earlier_tries;
        all.merge(&self.latest_try);
        all
    }
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

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write as _};

    use proctor_types::Ending;
    use serde_json::json;

    use super::*;
    use crate::Journal;

    /// Returns an attempt that costs half a dollar.
    fn attempt() -> Event {
        let event = json!({
            "kind": "model_attempted", "attempt": 1, "status": 200, "error": null,
            "wait_seconds": 0.0, "usage": {"input": 100, "output": 10}, "cost_usd": 0.5,
            "request": null, "body": null
        });
        serde_json::from_value(event).unwrap()
    }

    #[test]
    fn trial_spending_follows_growing_journals_and_new_tries() {
        let folder = tempfile::tempdir().unwrap();
        let dir = TrialDir::new(folder.path().join("trial"));
        dir.create().unwrap();
        let mut spent = TrialSpending::default();
        assert!(spent.update(&dir, None).is_err(), "there is no journal yet");
        let mut update = |outcome: Option<&Outcome>| {
            spent.update(&dir, outcome).unwrap();
            // A report reads the same files in full.
            let earlier = read_earlier_tries(&dir, outcome.is_some()).unwrap().spent;
            let mut paid = earlier;
            paid.merge(&outcome.map(|outcome| outcome.spent).unwrap_or_default());
            assert_eq!(spent.total(), paid);
            spent.total().cost_usd
        };

        let mut journal = Journal::create(dir.trajectory_path(), 1).unwrap();
        journal.append(0, attempt()).unwrap();
        assert_eq!(update(None), 0.5);
        journal.append(0, attempt()).unwrap();
        assert_eq!(update(None), 1.0);
        assert_eq!(update(None), 1.0, "no line is counted twice");

        // The writer has not finished the last line.
        drop(journal);
        let mut file = File::options().append(true).open(dir.trajectory_path()).unwrap();
        file.write_all(b"{\"v\":2,\"kind\":\"model_att").unwrap();
        assert_eq!(update(None), 1.0);

        // The first try ended in a fault, and the second one is running.
        dir.begin_try(2).unwrap();
        let mut journal = Journal::create(dir.trajectory_path(), 2).unwrap();
        journal.append(0, attempt()).unwrap();
        assert_eq!(update(None), 1.5);

        // The outcome replaces the journal of the latest try.
        let mut outcome = Outcome::from_ending(2, Ending::Submitted);
        outcome.spent.cost_usd = 0.75;
        assert_eq!(update(Some(&outcome)), 1.75);
        // The try continues.
        assert_eq!(update(None), 1.5);
    }
}
