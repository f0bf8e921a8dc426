//! A trial as a timeline, and one step of it.

use minijinja::Error;
use serde::Serialize;

use super::{
    Folder, Links,
    templates::fill,
    timeline::{Cap, Timeline, timeline},
};

/// Number of steps shown before and after the current one.
const BESIDE: usize = 60;
/// Number of rows for the first and for the last steps of a trial, if it has more than both
/// together.
const ROWS: usize = 1_000;

/// One step of a trial, on a line.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StepRow {
    /// Counted from 1; 0 is what comes before the first response.
    pub number: u64,
    /// Seconds since the attempt began.
    pub at: f64,
    /// From the request to the end of its tools.
    pub seconds: f64,
    pub tool_seconds: f64,
    /// In requests to the endpoint, without waits.
    pub model_seconds: f64,
    /// Back-off and queues.
    pub waited_seconds: f64,
    /// Tokens.
    pub input: u64,
    pub output: u64,
    pub cost_usd: Option<f64>,
    /// What was done: the tools with the first words of their calls, or the first words of the
    /// message.
    pub did: Vec<String>,
    /// Some tool failed, or its call could not be parsed.
    pub failed: bool,
    /// It ran tests, as far as its shell lines show.
    pub tests: bool,
    /// Number of new, changed and removed paths.
    pub changed: u64,
    /// Requests to the egress proxy, and those that it refused.
    pub requests: u64,
    pub denied: u64,
    /// Requests to the endpoint that failed.
    pub resends: u64,
    /// What it did, and what it saw of the result: two steps with the same number did, or saw, the
    /// same.
    #[serde(skip)]
    pub act: u64,
    #[serde(skip)]
    pub seen: u64,
}

/// One complete step.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Step {
    pub row: StepRow,
    pub message: String,
    pub reasoning: String,
    pub calls: Vec<Call>,
    pub urls: Vec<Url>,
    /// Lines about failed requests and about what ended the trial.
    pub notes: Vec<String>,
    /// What the step changed in the work directory.
    pub diff: String,
    /// Differences of the work directory after it from before the first step. Empty if that is the
    /// same as `diff`.
    pub so_far: String,
    pub sends: Vec<Sent>,
    /// What people said about it.
    pub labels: Vec<Said>,
    /// The work directory after it; absent in files, and if no snapshot was taken.
    pub workspace: Option<Folder>,
}

/// What a person said about a trial or a step.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Said {
    /// Absent if it concerns the whole trial.
    pub step: Option<u64>,
    pub label: String,
    pub comment: String,
}

/// A request to the endpoint.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Sent {
    pub attempt: u32,
    pub status: Option<u16>,
    pub seconds: Option<f64>,
    pub waited_seconds: f64,
    /// Hashes of the exact bytes.
    pub request: Option<String>,
    pub body: Option<String>,
}

/// A tool call with its result.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Call {
    pub name: String,
    pub arguments: String,
    /// Absent if it never returned.
    pub shown: Option<String>,
    /// The hash of the whole output, if `shown` is only part of it.
    pub full: Option<String>,
    pub exit_status: Option<i32>,
    pub seconds: Option<f64>,
    pub malformed: bool,
}

/// A request to the egress proxy.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Url {
    pub method: String,
    pub url: String,
    pub decision: String,
    pub why: String,
}

/// A test that was expected to pass, with the lines of the log about it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TestLine {
    /// `F2P` or `P2P`.
    pub kind: &'static str,
    pub id: String,
    pub status: String,
    pub passed: bool,
    pub log: String,
    /// The address of the search for what its trial says about it, relative to the root; empty if
    /// it passed.
    pub speaks: String,
}

/// A trial, as its page and the terminal show it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Trial {
    pub run: String,
    pub task: String,
    pub arm: String,
    pub attempt: u32,
    /// How it ended, in words; empty while it has not.
    pub outcome: String,
    pub resolved: Option<bool>,
    pub reason: String,
    pub why: Vec<String>,
    pub integrity: String,
    /// The effect of interruptions, in words; empty if there were none.
    pub interruptions: String,
    /// Kind, what was seen, steps.
    pub evidence: Vec<(String, String, Vec<u64>)>,
    pub passed_rate: Option<f64>,
    pub steps: Vec<StepRow>,
    pub input: u64,
    pub output: u64,
    pub cost_usd: Option<f64>,
    pub wall_seconds: f64,
    /// The budget's limits, in words.
    pub limits: Vec<String>,
    /// The limits that can be drawn.
    #[serde(skip)]
    pub caps: Vec<Cap>,
    /// The address of the page that shows the trials of its task side by side, relative to the
    /// root; empty if it is the only one.
    pub beside: String,
    pub tests: Vec<TestLine>,
    pub damage: Vec<String>,
    /// What people said about it and its steps.
    pub labels: Vec<Said>,
    /// Its files.
    pub files: Vec<String>,
}

#[derive(Serialize)]
struct TrialFilling<'a> {
    trial: &'a Trial,
    links: &'a Links<'a>,
    patch: &'a str,
    gold: &'a str,
    timeline: Option<Timeline>,
    first: &'a [StepRow],
    /// The steps in the middle that have no row here: the first of them, and how many.
    left_out: Option<(u64, usize)>,
    last: &'a [StepRow],
    ways: Vec<Way>,
    live: bool,
}

#[derive(Serialize)]
struct StepFilling<'a> {
    step: &'a Step,
    trial: &'a str,
    links: &'a Links<'a>,
    ways: Vec<Way>,
    beside: &'a [StepRow],
    before: usize,
    behind: usize,
    live: bool,
}

/// A link to another step, and its key.
#[derive(Debug, PartialEq, Serialize)]
struct Way {
    key: char,
    name: &'static str,
    to: u64,
    rel: Option<&'static str>,
}

/// Whether a key leads to a step.
type Is = fn(&StepRow) -> bool;

/// Links from a step to others; from before the first one if `from` is 0.
fn ways(rows: &[StepRow], from: u64) -> Vec<Way> {
    let kinds: [([char; 2], [&'static str; 2], Is); 4] = [
        (['j', 'k'], ["next step", "previous step"], |_| true),
        (['e', 'E'], ["next error", "previous error"], |row| row.failed),
        (['d', 'D'], ["next edit", "previous edit"], |row| row.changed > 0),
        (['t', 'T'], ["next test run", "previous test run"], |row| row.tests),
    ];
    let mut ways = Vec::new();
    for ([key, back_key], [name, back_name], is) in kinds {
        let plain = key == 'j';
        let before = rows.iter().rev().find(|row| row.number < from && is(row));
        let behind = rows.iter().find(|row| row.number > from && is(row));
        for (found, key, name, rel) in
            [(before, back_key, back_name, "prev"), (behind, key, name, "next")]
        {
            let rel = plain.then_some(rel);
            ways.extend(found.map(|row| Way { key, name, to: row.number, rel }));
        }
    }
    ways
}

/// The timeline. `patch` is the final diff, `gold` is shown beside it, `live` says whether more is
/// to come.
///
/// # Errors
/// A template refers to something that does not exist. No content of a run can cause this; the same
/// applies to all pages.
pub fn trial(
    trial: &Trial,
    links: &Links<'_>,
    patch: &str,
    gold: &str,
    live: bool,
) -> Result<String, Error> {
    let steps = trial.steps.as_slice();
    let (first, left_out, last) = match steps.len().checked_sub(2 * ROWS) {
        None | Some(0) => (steps, None, &steps[..0]),
        Some(more) => (
            &steps[..ROWS],
            steps.get(ROWS).map(|row| (row.number, more)),
            &steps[steps.len() - ROWS..],
        ),
    };
    let (timeline, ways) = (timeline(steps, &trial.caps), ways(steps, 0));
    let filling =
        TrialFilling { trial, links, patch, gold, timeline, first, left_out, last, ways, live };
    fill("trial.html", filling)
}

/// `trial` is its name, `rows` are all its steps.
///
/// # Errors
/// See [`trial`].
pub fn step(
    step: &Step,
    trial: &str,
    rows: &[StepRow],
    links: &Links<'_>,
    live: bool,
) -> Result<String, Error> {
    let at = (step.row.number as usize).saturating_sub(1);
    let from = at.saturating_sub(BESIDE).min(rows.len());
    let to = (at + BESIDE + 1).min(rows.len()).max(from);
    let filling = StepFilling {
        step,
        trial,
        links,
        ways: ways(rows, step.row.number),
        beside: &rows[from..to],
        before: from,
        behind: rows.len() - to,
        live,
    };
    fill("step.html", filling)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_to_next_and_previous_steps_of_a_kind() {
        let row = |number, failed, changed, tests| StepRow {
            number,
            failed,
            changed,
            tests,
            ..StepRow::default()
        };
        let rows = [
            row(1, false, 0, false),
            row(2, true, 0, false),
            row(3, false, 2, false),
            row(4, true, 0, true),
        ];
        let keys = |from| -> Vec<(char, u64)> {
            ways(&rows, from).into_iter().map(|way| (way.key, way.to)).collect()
        };
        assert_eq!(keys(0), [('j', 1), ('e', 2), ('d', 3), ('t', 4)]);
        assert_eq!(
            keys(3),
            [('k', 2), ('j', 4), ('E', 2), ('e', 4), ('t', 4)],
            "an edit leads to no edit before or behind it"
        );
        assert_eq!(keys(4), [('k', 3), ('E', 2), ('D', 3)]);
    }
}
