//! Indexes the positions of a journal's events, and summarizes each step in a row. Each part of a
//! journal is indexed only once: a later read covers only the lines that were appended since. With
//! the index, showing one step of a long trial requires reading only a few lines.

use std::{
    borrow::Cow,
    collections::HashMap,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use memchr::memmem;
use proctor_forensics::{has_run_tests, runs_tests};
use proctor_record::{
    BadLine, Blobs, EventLine, EventReader, PatchPolicy, RecordError, Tree, collect_patch,
};
use proctor_types::{Fault, ModelResponse, RequestClass, UrlDecision, Usage};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    response_text::said_text,
    tool_calls::{agent_text, arguments_text, summarize_call},
};
use crate::html::{SideRequest, StepRow};

/// Maximum number of tree entries that are compared to count a trial's changed paths: fifty edits
/// in a work directory with ten thousand files. The counts of later steps include paths that are not
/// part of the patch.
const MAX_COMPARED_ENTRIES: usize = 1_000_000;
/// Maximum length of an agent's text in the index, in characters. A step shows the whole text.
const MAX_INDEXED_LOG_CHARS: usize = 400;

/// The index of one journal.
#[derive(Debug, Clone)]
pub struct JournalIndex {
    journal: PathBuf,
    /// Identifies the journal file. A new try has a new file.
    file_id: u64,
    /// Number of complete lines, then the offset of their end.
    line_count: usize,
    end_offset: u64,
    /// Offsets and numbers of each step's lines. The first entry belongs to step 0.
    line_positions: Vec<Vec<(u64, usize)>>,
    /// The request whose response has not arrived yet. In the journal, this request still belongs
    /// to the previous step.
    pending: Option<PendingRequest>,
    /// The work directory's tree after each step, in journal order.
    trees_by_step: Vec<(u64, String)>,
    /// The tree after each step whose changed paths were compared with the patch policy.
    compared_trees: HashMap<u64, String>,
    compared_entries: usize,
    pub rows: Vec<StepRow>,
    pub side_requests: Vec<SideRequest>,
    /// The faults that ended tries, each with the number of steps before it.
    pub failed_tries: Vec<(u64, String)>,
    /// The beginnings of texts that the agent itself wrote to the record, each with its step.
    pub agent_logs: Vec<(u64, String)>,
    /// Descriptions of the parts of the journal that cannot be read.
    pub damage: Vec<String>,
    /// When the last event was recorded: in seconds since its try began, then in seconds since the
    /// Unix epoch.
    last_event_time: f64,
    pub last_wall_time: f64,
}

impl JournalIndex {
    /// Reads and indexes a journal.
    pub fn from_journal(journal: &Path) -> Result<Self, RecordError> {
        let mut index = Self {
            journal: journal.to_owned(),
            file_id: fs::metadata(journal).map_or(0, |file| file.ino()),
            line_count: 0,
            end_offset: 0,
            line_positions: Vec::new(),
            pending: None,
            trees_by_step: Vec::new(),
            compared_trees: HashMap::new(),
            compared_entries: 0,
            rows: Vec::new(),
            side_requests: Vec::new(),
            failed_tries: Vec::new(),
            agent_logs: Vec::new(),
            damage: Vec::new(),
            last_event_time: 0.0,
            last_wall_time: 0.0,
        };
        index.read_appended()?;
        Ok(index)
    }

    /// Returns the trial's current activity, according to its journal.
    pub fn current_activity(&self) -> String {
        match (&self.pending, self.rows.last()) {
            (Some(_), _) => format!("waiting for the model (step {})", self.rows.len() + 1),
            (None, Some(row)) => {
                format!("step {}: {}", row.number, row.did.last().cloned().unwrap_or_default())
            }
            (None, None) => "before its first step".to_owned(),
        }
    }

    /// Whether all lines of the journal have been read. False if the journal has grown since the
    /// last read. `None` if another file has replaced the journal.
    pub fn is_up_to_date(&self) -> Option<bool> {
        let file = fs::metadata(&self.journal).ok()?;
        let same = file.ino() == self.file_id && file.len() >= self.end_offset;
        same.then_some(file.len() == self.end_offset)
    }

    /// Reads the lines that were appended since the last read. An incomplete last line may still be
    /// in the process of being written, so it is left for the next read.
    pub fn read_appended(&mut self) -> Result<(), RecordError> {
        let mut events = EventReader::open_at(&self.journal, self.end_offset, self.line_count)?;
        for line in events.by_ref() {
            match line {
                Ok(line) => {
                    if let Err(bad) = self.add_line(&line) {
                        self.damage.push(bad.to_string());
                    }
                }
                Err(bad) => self.damage.push(bad.to_string()),
            }
        }
        (self.end_offset, self.line_count) = (events.offset(), events.line_count());
        Ok(())
    }

    fn add_line(&mut self, line: &EventLine) -> Result<(), BadLine> {
        let step = line.step as usize;
        // No journal skips thousands of steps, so a number this large is an error.
        if step > self.line_positions.len() + self.line_count + 1_000 {
            return Ok(());
        }
        if self.line_positions.len() <= step {
            self.line_positions.resize_with(step + 1, Vec::new);
        }
        let place = (line.offset, line.line - 1);
        if matches!(line.kind.as_str(), "model_asked" | "model_attempted") {
            let at = if line.kind == "model_asked" { line.t_mono } else { self.last_event_time };
            let pending = self.pending.get_or_insert_with(|| PendingRequest::starting_at(at));
            (self.last_event_time, self.last_wall_time) = (line.t_mono, line.t_wall);
            if line.kind == "model_asked" {
                return Ok(());
            }
            pending.line_positions.push(place);
            return add_event(&mut pending.step_row, line);
        }
        while self.rows.len() < step {
            let number = self.rows.len() as u64 + 1;
            let pending = self
                .pending
                .take()
                .unwrap_or_else(|| PendingRequest::starting_at(self.last_event_time));
            self.line_positions[number as usize].extend(pending.line_positions);
            self.rows.push(StepRow { number, ..pending.step_row });
        }
        if line.kind == "try_failed" {
            return self.add_failed_try(line, place);
        }
        self.line_positions[step].push(place);
        if line.kind == "snapshot_taken" || line.kind == "setup_finished" {
            let taken: SnapshotHashes = line.parse_fields()?;
            self.trees_by_step.extend(
                taken.snapshot.or(taken.base_snapshot).map(|snapshot| (line.step, snapshot)),
            );
        }
        if line.kind == "noted" {
            let NotedFields { note } = line.parse_fields()?;
            if let Some(text) = agent_text(&note) {
                let start: String = text.chars().take(MAX_INDEXED_LOG_CHARS).collect();
                self.agent_logs.push((line.step, start));
            }
        }
        let last = std::mem::replace(&mut self.last_event_time, line.t_mono);
        self.last_wall_time = line.t_wall;
        let row = step.checked_sub(1).and_then(|at| self.rows.get_mut(at));
        let Some(row) = row else {
            // Some agents send side requests before their first step.
            if line.kind == "request_served" {
                let served: ServedRequest = line.parse_fields()?;
                self.side_requests.extend(served.into_side_request(line.step));
            }
            return Ok(());
        };
        // Don't let late events, such as the end of a proxy request, extend an earlier step. While a
        // request waits for its response, the end and the start of a try belong to the request.
        let is_of_try = matches!(line.kind.as_str(), "sandbox_measured" | "trial_resumed");
        let is_of_request = is_of_try && self.pending.is_some();
        if step == self.line_positions.len() - 1 && !is_of_request {
            row.seconds = (line.t_mono - row.at).max(row.seconds);
        } else {
            self.last_event_time = last;
        }
        if line.kind == "request_served" {
            let served: ServedRequest = line.parse_fields()?;
            // A sub-agent's side request is recorded with the latest step, which may belong to
            // another conversation.
            if served.class == RequestClass::Main && served.delivered {
                (row.conversation, row.parent) = (served.conversation, served.parent);
            } else {
                self.side_requests.extend(served.into_side_request(line.step));
            }
            return Ok(());
        }
        add_event(row, line)
    }

    /// Adds a fault that ended a try. The journal records it with step 0, and the request that waits
    /// for its response, or else the latest step, shows it.
    fn add_failed_try(&mut self, line: &EventLine, place: (u64, usize)) -> Result<(), BadLine> {
        let TryFailure { fault } = line.parse_fields()?;
        self.failed_tries.push((self.rows.len() as u64, fault.to_string()));
        (self.last_event_time, self.last_wall_time) = (line.t_mono, line.t_wall);
        let (positions, row) = match (&mut self.pending, self.rows.last_mut()) {
            (Some(pending), _) => (&mut pending.line_positions, &mut pending.step_row),
            (None, Some(row)) => (&mut self.line_positions[row.number as usize], row),
            (None, None) => return Ok(()),
        };
        positions.push(place);
        row.faults += 1;
        Ok(())
    }

    /// Returns a row for the request whose response never arrived, if an attempt failed. The row's
    /// number is that of the step that the response would have been.
    pub fn unanswered_row(&self) -> Option<StepRow> {
        let row = &self.pending.as_ref()?.step_row;
        let failed = match (row.resends, row.faults) {
            (0, 0) => return None,
            (0, _) => "request without a response".to_owned(),
            (1, _) => "request failed".to_owned(),
            (count, _) => format!("request failed {count} times"),
        };
        Some(StepRow {
            number: self.rows.len() as u64 + 1,
            seconds: (self.last_event_time - row.at).max(0.0),
            did: vec![failed],
            failed: true,
            is_unanswered: true,
            ..row.clone()
        })
    }

    /// Returns the rows of the steps, followed by the row of the unanswered request.
    pub fn listed_rows(&self) -> Cow<'_, [StepRow]> {
        match self.unanswered_row() {
            Some(row) => self.rows.iter().cloned().chain([row]).collect(),
            None => Cow::Borrowed(&self.rows),
        }
    }

    /// Returns a step's lines. Step 0 is everything before the first response.
    pub fn step_lines(&self, number: u64) -> impl Iterator<Item = Result<EventLine, BadLine>> + '_ {
        let positions = self.line_positions.get(number as usize).into_iter().flatten();
        // Without a failed attempt, a request that waits for its response has no row.
        let of_request = self.rows.len() + usize::from(self.unanswered_row().is_some());
        let is_latest = number as usize == of_request;
        let unanswered = self
            .pending
            .iter()
            .filter(move |_| is_latest)
            .flat_map(|pending| &pending.line_positions);
        positions
            .chain(unanswered)
            .filter_map(|(at, line)| EventReader::open_at(&self.journal, *at, *line).ok()?.next())
    }

    /// Counts only those changed paths of each step that are part of the step's diff. A journal counts
    /// all paths, such as ignored files. A step keeps the journal's count if a tree cannot be read.
    pub fn count_paths_in_diffs(&mut self, blobs: &Blobs) {
        let edited = self.rows.iter().filter(|row| row.changed > 0).map(|row| row.number);
        for number in edited.collect::<Vec<u64>>() {
            let Some([before, after, _]) = self.trees_around_step(number) else { continue };
            if self.compared_trees.get(&number).is_some_and(|known| known == after) {
                continue;
            }
            if self.compared_entries > MAX_COMPARED_ENTRIES {
                return;
            }
            let after_hash = after.to_owned();
            let Ok((count, entries)) = count_paths_in_diff(blobs, before, after) else { continue };
            if let Some(row) = self.rows.get_mut(number as usize - 1) {
                row.changed = count;
            }
            self.compared_entries += entries;
            self.compared_trees.insert(number, after_hash);
        }
    }

    /// Returns the trees of the work directory before a step, after it, and before the first step.
    /// A step without a snapshot changed nothing.
    pub fn trees_around_step(&self, number: u64) -> Option<[&str; 3]> {
        let until = |most: u64| self.trees_by_step.iter().rev().find(|(step, _)| *step <= most);
        let (first, before) = (self.trees_by_step.first()?, until(number.checked_sub(1)?)?);
        Some([&before.1, &until(number)?.1, &first.1])
    }
}

/// Returns the number of paths in the diff between two trees, and the number of entries compared.
fn count_paths_in_diff(
    blobs: &Blobs,
    before: &str,
    after: &str,
) -> Result<(u64, usize), RecordError> {
    if before == after {
        return Ok((0, 0));
    }
    let (base, end) = (Tree::load(blobs, before)?, Tree::load(blobs, after)?);
    let patch = collect_patch(&base, &end, blobs, PatchPolicy::shipped()?)?;
    Ok((patch.changed_paths, base.entries.len() + end.entries.len()))
}

#[derive(Debug, Clone)]
struct PendingRequest {
    step_row: StepRow,
    line_positions: Vec<(u64, usize)>,
}

impl PendingRequest {
    fn starting_at(time: f64) -> Self {
        Self { step_row: StepRow { at: time, ..StepRow::default() }, line_positions: Vec::new() }
    }
}

#[derive(Deserialize)]
struct SnapshotHashes {
    snapshot: Option<String>,
    base_snapshot: Option<String>,
}

#[derive(Deserialize)]
struct NotedFields {
    note: Map<String, Value>,
}

#[derive(Deserialize)]
struct TryFailure {
    fault: Fault,
}

#[derive(Deserialize)]
struct ModelResponsePart {
    answer: ModelResponse,
}

#[derive(Deserialize)]
struct ToolCall {
    #[serde(default)]
    call_id: String,
    name: String,
    arguments: Value,
}

#[derive(Deserialize)]
struct ToolResult {
    exit_status: Option<i32>,
    seconds: f64,
    malformed: bool,
}

impl ToolResult {
    /// Parses a line. The output may be a megabyte long and is only hashed, so the other fields are
    /// parsed without it. This works only if the fields have the order in which Proctor writes
    /// them. Other lines are parsed completely.
    fn parse_line(line: &EventLine) -> Result<(Self, u64), BadLine> {
        const OUTPUT_KEY: &[u8] = b",\"shown\":";
        const NEXT_KEY: &[u8] = b",\"full\":";
        // No JSON string can contain the patterns below, because quotes inside strings are escaped.
        let json = line.json();
        if let (Some(from), Some(to)) =
            (memmem::find(json, OUTPUT_KEY), memmem::rfind(json, NEXT_KEY))
            && from < to
        {
            let mut after = vec![b'{'];
            after.extend_from_slice(&json[to + 1..]);
            if let Ok(returned) = serde_json::from_slice(&after) {
                return Ok((returned, hash_value(&&json[from..to])));
            }
        }
        Ok((line.parse_fields()?, hash_value(&json)))
    }
}

#[derive(Deserialize)]
struct ToolOutput {
    shown: String,
}

#[derive(Deserialize)]
struct SnapshotCounts {
    changed: u64,
    removed: u64,
}

#[derive(Deserialize)]
struct UrlRequest {
    decision: UrlDecision,
}

#[derive(Deserialize)]
struct SendAttempt {
    error: Option<String>,
    wait_seconds: f64,
    #[serde(default)]
    queued_seconds: f64,
    seconds: Option<f64>,
}

#[derive(Deserialize)]
struct ServedRequest {
    number: u64,
    path: String,
    class: RequestClass,
    conversation: Option<String>,
    parent: Option<String>,
    status: u16,
    error: Option<String>,
    delivered: bool,
    request: String,
    response: Option<String>,
    answer: Option<ModelResponse>,
    usage: Option<Usage>,
    cost_usd: Option<f64>,
    seconds: f64,
}

impl ServedRequest {
    /// Returns `None` for a request of the main conversation.
    fn into_side_request(self, step: u64) -> Option<SideRequest> {
        let response_text = self.answer.map(|answer| match answer.tool_calls.first() {
            Some(call) if answer.content.is_empty() => summarize_call(&call.name, &call.arguments),
            _ => summarize_call("", &said_text(&answer)),
        });
        (self.class == RequestClass::Side).then(|| SideRequest {
            step,
            number: self.number,
            conversation: self.conversation.unwrap_or_default(),
            path: self.path,
            status: self.status,
            error: self.error.unwrap_or_default(),
            seconds: self.seconds,
            estimated: self.usage.as_ref().is_some_and(|usage| usage.estimated),
            tokens: self.usage.map(|usage| (usage.input, usage.output)),
            cost_usd: self.cost_usd,
            response_text: response_text.unwrap_or_default(),
            request: self.request,
            response: self.response,
        })
    }
}

#[derive(Deserialize)]
struct ResumePoint {
    whole_steps: u64,
}

fn hash_value(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn add_event(row: &mut StepRow, line: &EventLine) -> Result<(), BadLine> {
    match line.kind.as_str() {
        "model_answered" => add_response(row, &line.parse_fields::<ModelResponsePart>()?.answer),
        "tool_called" => {
            let ToolCall { call_id, name, arguments } = line.parse_fields()?;
            // Skip the call if the response already listed it. Only calls of a client's own tools
            // appear for the first time in this event.
            let call = summarize_call(&name, &arguments_text(&arguments));
            // Some clients rewrite the ids of calls, so also compare the calls themselves.
            let requested = row.requested.iter().position(|(id, _)| *id == call_id);
            let requested =
                requested.or_else(|| row.requested.iter().position(|(_, text)| *text == call));
            if let Some(at) = requested {
                row.requested.remove(at);
            } else if !row.did.contains(&call) {
                row.requested.clear();
            }
            row.not_run = row.requested.len() as u64;
            if !row.did.contains(&call) {
                row.did.push(call);
                row.action_hash = hash_value(&(row.action_hash, &name, arguments.to_string()));
            }
            row.tests |= runs_tests(&arguments).unwrap_or(false);
        }
        "tool_returned" => {
            let (ToolResult { exit_status, seconds, malformed }, seen) =
                ToolResult::parse_line(line)?;
            row.tool_seconds += seconds;
            row.failed |= malformed || exit_status.is_some_and(|status| status != 0);
            if row.tests {
                let ToolOutput { shown } = line.parse_fields()?;
                let ran = has_run_tests(&shown).unwrap_or(None);
                // If one output of the step shows that tests ran, the other outputs don't matter.
                row.ran_tests =
                    if row.ran_tests == Some(true) { Some(true) } else { ran.or(row.ran_tests) };
            }
            row.result_hash = hash_value(&(row.result_hash, seen));
        }
        "snapshot_taken" => {
            let SnapshotCounts { changed, removed } = line.parse_fields()?;
            row.changed += changed + removed;
        }
        "url_requested" => {
            let UrlRequest { decision } = line.parse_fields()?;
            row.requests += 1;
            row.denied += u64::from(decision == UrlDecision::Denied);
        }
        "model_attempted" => {
            let sent: SendAttempt = line.parse_fields()?;
            row.resends += u64::from(sent.error.is_some());
            row.waited_seconds += sent.wait_seconds + sent.queued_seconds;
            row.model_seconds += sent.seconds.unwrap_or_default();
        }
        "trial_resumed" => {
            let ResumePoint { whole_steps } = line.parse_fields()?;
            // These calls run again after the interruption, so discard their results.
            if whole_steps < row.number {
                (row.tool_seconds, row.failed, row.result_hash) = (0.0, false, 0);
                row.ran_tests = None;
            }
        }
        _ => {}
    }
    Ok(())
}

fn add_response(row: &mut StepRow, response: &ModelResponse) {
    (row.input, row.output) = (response.usage.input, response.usage.output);
    (row.cost_usd, row.estimated) = (response.cost_usd, response.usage.estimated);
    row.did = response
        .tool_calls
        .iter()
        .map(|call| summarize_call(&call.name, &call.arguments))
        .collect();
    let ids = response.tool_calls.iter().map(|call| call.id.clone());
    row.requested = ids.zip(row.did.iter().cloned()).collect();
    row.not_run = row.requested.len() as u64;
    let calls: Vec<_> = response
        .tool_calls
        .iter()
        .map(|call| (call.name.as_str(), call.arguments.as_str()))
        .collect();
    let said = said_text(response);
    row.action_hash = if calls.is_empty() { hash_value(&said) } else { hash_value(&calls) };
    row.tests = response.tool_calls.iter().any(|call| {
        serde_json::from_str(&call.arguments)
            .is_ok_and(|arguments: Value| runs_tests(&arguments).unwrap_or(false))
    });
    if row.did.is_empty() {
        row.did.push(summarize_call("", &said));
    }
}
