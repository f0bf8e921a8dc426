//! Renders the page of a trial with its steps, and the page of a single step.

use minijinja::Error;
use serde::Serialize;

use super::{
    Folder, Links, SideRequest,
    conversation::{Conversation, conversations},
    side_requests::{SideRequestList, list_side_requests},
    step_row::StepRow,
    templates::render_template,
    test_lists::{TestLists, test_lists},
    timeline::{ChartLimit, Timeline, timeline},
    trial_name::TrialName,
};

/// Maximum number of agent messages on a trial's page.
const MAX_AGENT_LOGS: usize = 100;

/// One step with all its details.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Step {
    pub row: StepRow,
    /// The task's statement. Empty if the step is not shown on a page.
    pub statement: String,
    pub message: String,
    pub reasoning: String,
    /// The model's refusal, if the endpoint returned it apart from the message.
    pub refusal: String,
    /// Whether the model refused, or a filter removed its response.
    pub is_refused: bool,
    /// The finish reason as the endpoint reported it. Empty if it did not.
    pub finish_reason: String,
    /// The names and texts of other fields of the response.
    pub other_fields: Vec<(String, String)>,
    /// The response that the model returned after a limit was reached. Its calls are not run.
    pub grace_response: String,
    pub calls: Vec<Call>,
    pub urls: Vec<EgressRequest>,
    /// Notes about failed requests, interruptions and limits that were reached.
    pub notes: Vec<String>,
    /// Messages that the agent itself wrote to the record during the step.
    pub agent_logs: Vec<String>,
    /// The step's changes to the work directory, as a diff.
    pub diff: String,
    /// The diff between the work directory before the first step and after this step. Empty if it
    /// equals `diff`.
    pub so_far: String,
    pub sends: Vec<EndpointRequest>,
    /// The side requests that were recorded with this step.
    pub side_requests: Vec<SideRequest>,
    /// Labels that people gave the step.
    pub labels: Vec<ShownLabel>,
    /// The work directory after the step. `None` in exported files, and if there is no snapshot.
    pub workspace: Option<Folder>,
}

/// A label that a person gave a trial or a step.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ShownLabel {
    /// The step, or `None` if the label is for the whole trial.
    pub step: Option<u64>,
    pub label: String,
    pub comment: String,
}

/// A request to the endpoint.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct EndpointRequest {
    pub attempt: u32,
    pub status: Option<u16>,
    pub seconds: Option<f64>,
    pub waited_seconds: f64,
    /// Hashes of the exact bytes of the request and the response.
    pub request: Option<String>,
    pub body: Option<String>,
}

/// A tool call with its result.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Call {
    /// The model's id for the call. Empty for a call that the response doesn't contain.
    #[serde(skip)]
    pub id: String,
    pub name: String,
    pub arguments: String,
    /// Whether the record shows that the call ran. An agent may run the model's calls with its own
    /// tools, whose calls the record then contains instead.
    pub ran: bool,
    /// `None` if the call never returned.
    pub shown: Option<String>,
    /// The hash of the full output, if `shown` is only part of the output.
    pub full: Option<String>,
    pub exit_status: Option<i32>,
    pub seconds: Option<f64>,
    /// Whether nothing was run, because the call could not be parsed or does not fit any tool.
    pub malformed: bool,
    /// Whether the arguments could be parsed.
    pub is_json: bool,
}

/// A request to the egress proxy.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct EgressRequest {
    pub method: String,
    pub url: String,
    pub decision: String,
    pub why: String,
}

/// An expected test, with the grading log's lines about the test.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TestLine {
    /// `F2P` or `P2P`.
    pub kind: &'static str,
    pub id: String,
    pub status: String,
    pub passed: bool,
    pub log: String,
    /// The URL of a search for this test's name within the trial, relative to the root. Empty
    /// if the test passed, or if no step mentions it.
    pub speaks: String,
}

/// A trial as shown on its page and in the terminal.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Trial {
    pub run: String,
    pub task: String,
    pub arm: String,
    pub attempt: u32,
    /// The task's statement.
    pub statement: String,
    /// How the trial ended, in words. Empty if it has not ended.
    pub outcome: String,
    pub resolved: Option<bool>,
    pub reason: String,
    /// The reason in words. If a limit ended the trial, what the tests show comes first.
    pub failure: String,
    pub why: Vec<String>,
    pub integrity: String,
    /// How the trial was interrupted, as text. Empty if it was not.
    pub interruptions: String,
    /// The kind, details and steps of each piece of evidence.
    pub evidence: Vec<(String, String, Vec<u64>)>,
    pub passed_rate: Option<f64>,
    pub steps: Vec<StepRow>,
    /// The request whose response never arrived. It follows the steps in lists, but is not a step.
    pub unanswered: Option<StepRow>,
    /// The faults that ended tries, each with the number of steps before it.
    pub failed_tries: Vec<(u64, String)>,
    pub side_requests: Vec<SideRequest>,
    pub input: u64,
    pub output: u64,
    pub cost_usd: Option<f64>,
    /// Whether some of the tokens are estimates.
    pub estimated: bool,
    pub wall_seconds: f64,
    /// The budget's limits, in words.
    pub limits: Vec<String>,
    /// The limits that the chart can show.
    #[serde(skip)]
    pub chart_limits: Vec<ChartLimit>,
    /// The URL of the page that shows the task's trials side by side, relative to the root.
    /// Empty if there is only one trial.
    pub beside: String,
    pub tests: Vec<TestLine>,
    /// How many tests failed, with which exceptions. Empty if the task is resolved.
    pub grading: String,
    /// The most frequent error of the failed tests, as a sentence. Empty if it is not known.
    pub error: String,
    /// Whether a patch was collected. The patch may be empty.
    pub has_patch: bool,
    pub damage: Vec<String>,
    /// The beginnings of messages that the agent itself wrote to the record, each with its step.
    pub agent_logs: Vec<(u64, String)>,
    /// The last lines of the agent's standard error. Empty unless the agent itself ended the trial
    /// or a fault did.
    pub stderr: Vec<String>,
    /// Labels that people gave the trial and its steps.
    pub labels: Vec<ShownLabel>,
    /// The paths of the trial's files in the record.
    pub files: Vec<String>,
    /// The names of the files that the viewer serves.
    pub served_files: Vec<&'static str>,
}

#[derive(Serialize)]
struct TrialContext<'a> {
    trial: &'a Trial,
    links: &'a Links<'a>,
    patch: &'a str,
    gold: &'a str,
    timeline: Option<Timeline>,
    conversations: Vec<Conversation<'a>>,
    tests: TestLists<'a>,
    side_requests: Option<SideRequestList<'a>>,
    agent_logs: &'a [(u64, String)],
    more_agent_logs: usize,
    ways: Vec<StepLink>,
    live: bool,
}

#[derive(Serialize)]
struct StepContext<'a> {
    step: &'a Step,
    trial: &'a TrialName,
    links: &'a Links<'a>,
    side_requests: Option<SideRequestList<'a>>,
    ways: Vec<StepLink>,
    conversations: Vec<Conversation<'a>>,
    live: bool,
}

/// A link to another step, and its keyboard shortcut.
#[derive(Debug, PartialEq, Serialize)]
struct StepLink {
    key: char,
    name: &'static str,
    to: u64,
    rel: Option<&'static str>,
}

/// Whether a keyboard shortcut stops at this step.
type StepFilter = fn(&StepRow) -> bool;

/// Returns the links from a step to other steps. The next and the previous step belong to the same
/// conversation. With `current_step` = 0, the links lead to the first matching steps of the trial.
fn step_links(rows: &[StepRow], current_step: u64) -> Vec<StepLink> {
    let current = rows.iter().find(|row| row.number == current_step);
    let is_near = |row: &StepRow| current.is_none_or(|one| one.conversation == row.conversation);
    let kinds: [([char; 2], [&'static str; 2], StepFilter); 4] = [
        (['j', 'k'], ["next step", "previous step"], |_| true),
        (['e', 'E'], ["next error", "previous error"], |row| row.failed),
        (['d', 'D'], ["next edit", "previous edit"], |row| row.changed > 0),
        (['t', 'T'], ["next test run", "previous test run"], |row| row.tests),
    ];
    let mut ways = Vec::new();
    for ([key, back_key], [name, back_name], is) in kinds {
        let plain = key == 'j';
        let is_target = |row: &StepRow| is(row) && (!plain || is_near(row));
        let before = rows.iter().rev().find(|row| row.number < current_step && is_target(row));
        let behind = rows.iter().find(|row| row.number > current_step && is_target(row));
        for (found, key, name, rel) in
            [(before, back_key, back_name, "prev"), (behind, key, name, "next")]
        {
            let rel = plain.then_some(rel);
            ways.extend(found.map(|row| StepLink { key, name, to: row.number, rel }));
        }
    }
    ways
}

/// Renders a trial's page. `patch` is the final diff, which is shown next to `gold`. `is_live`
/// means that the trial has not ended.
///
/// # Errors
/// Fails if a template refers to a name that does not exist. The content of a run cannot cause
/// this. The same applies to all other pages.
pub fn render_trial(
    trial: &Trial,
    links: &Links<'_>,
    patch: &str,
    gold: &str,
    is_live: bool,
) -> Result<String, Error> {
    let steps = trial.steps.as_slice();
    let listed: Vec<StepRow> = steps.iter().chain(&trial.unanswered).cloned().collect();
    let (agent_logs, other_logs) =
        trial.agent_logs.split_at(trial.agent_logs.len().min(MAX_AGENT_LOGS));
    let filling = TrialContext {
        trial,
        links,
        patch,
        gold,
        timeline: timeline(&listed, &trial.chart_limits),
        conversations: conversations(&listed, None),
        tests: test_lists(&trial.tests),
        side_requests: list_side_requests(&trial.side_requests),
        agent_logs,
        more_agent_logs: other_logs.len(),
        ways: step_links(&listed, 0),
        live: is_live,
    };
    render_template("trial.html", filling)
}

/// Renders a step's page. `rows` are all steps of the trial, and the request without a response.
///
/// # Errors
/// See [`render_trial`].
pub fn render_step(
    step: &Step,
    trial: &TrialName,
    rows: &[StepRow],
    links: &Links<'_>,
    is_live: bool,
) -> Result<String, Error> {
    let filling = StepContext {
        step,
        trial,
        links,
        side_requests: list_side_requests(&step.side_requests),
        ways: step_links(rows, step.row.number),
        conversations: conversations(rows, Some(step.row.number)),
        live: is_live,
    };
    render_template("step.html", filling)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_links_lead_to_next_and_previous_step_of_each_kind() {
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
            step_links(&rows, from).into_iter().map(|way| (way.key, way.to)).collect()
        };
        assert_eq!(keys(0), [('j', 1), ('e', 2), ('d', 3), ('t', 4)]);
        assert_eq!(
            keys(3),
            [('k', 2), ('j', 4), ('E', 2), ('e', 4), ('t', 4)],
            "there is no edit before or after this one"
        );
        assert_eq!(keys(4), [('k', 3), ('E', 2), ('D', 3)]);
    }

    #[test]
    fn long_agent_log_is_shortened_and_counted() {
        let page_with = |count: usize| {
            let agent_logs = (0..count).map(|at| (0, format!("text {at}."))).collect();
            let trial = Trial { agent_logs, ..Trial::default() };
            render_trial(&trial, &Links::default(), "", "", false).unwrap()
        };
        let last = format!("text {}.", MAX_AGENT_LOGS - 1);
        let (all, some) = (page_with(MAX_AGENT_LOGS), page_with(MAX_AGENT_LOGS + 3));
        assert!(all.contains(&last) && !all.contains("more: each step's page"), "{all}");
        assert!(some.contains(&last) && some.contains("and 3 more: each step's page"), "{some}");
        assert!(!some.contains(&format!("text {MAX_AGENT_LOGS}.")), "{some}");
    }

    #[test]
    fn step_links_lead_to_steps_of_the_same_conversation() {
        let row = |number, conversation: Option<&str>| StepRow {
            number,
            conversation: conversation.map(str::to_owned),
            failed: number == 2,
            ..StepRow::default()
        };
        let rows = [row(1, None), row(2, Some("a")), row(3, None), row(4, Some("a"))];
        let keys = |from| -> Vec<(char, u64)> {
            step_links(&rows, from).into_iter().map(|way| (way.key, way.to)).collect()
        };
        assert_eq!(keys(1), [('j', 3), ('e', 2)], "errors are found in every conversation");
        assert_eq!(keys(4), [('k', 2), ('E', 2)]);
    }
}
