//! Tests how a try is resumed, with journals like those that trials write.

use proctor_record::Journal;
use proctor_sandbox_api::wire::{RawPath, SnapshotEntry};
use proctor_types::Responder;
use serde_json::Map;
use tempfile::TempDir;

use super::*;

/// A trial's journal and blobs.
struct TestRecord {
    folder: TempDir,
    blobs: Blobs,
    journal: Journal,
}

fn responder() -> Responder {
    Responder { model: Some("m".into()), ..Responder::default() }
}

impl TestRecord {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(folder.path().join("blobs"));
        let journal = Journal::create(folder.path().join("trajectory.jsonl"), 3).unwrap();
        Self { folder, blobs, journal }
    }

    fn add(&mut self, event: Event) {
        self.journal.append(0, event).unwrap();
    }

    /// Records a tree with the given entries and returns its digest.
    fn tree(&self, entries: &[(&str, EntryKind, bool)]) -> String {
        let mut tree = Tree::default();
        for (path, kind, kept) in entries {
            let path = RawPath::from(*path);
            let hash = kept.then(|| self.blobs.put(b"content").unwrap());
            let entry = SnapshotEntry {
                path: path.clone(),
                kind: *kind,
                mode: 0o644,
                size: 7,
                hash,
                link: None,
            };
            tree.entries.insert(path, entry);
        }
        tree.save(&self.blobs).unwrap()
    }

    fn add_setup(&mut self) -> String {
        let base = self.tree(&[]);
        self.add(Event::SetupFinished {
            backend: "native".into(),
            start_ms: 1.0,
            base_snapshot: base.clone(),
            not_enforced: Vec::new(),
            environment: None,
        });
        base
    }

    /// Records a response to a request that cost ten input tokens and one output token.
    fn add_response(&mut self, content: &str) {
        self.add(Event::ModelAttempted {
            attempt: 1,
            status: Some(200),
            error: None,
            wait_seconds: 2.0,
            queued_seconds: 3.0,
            shared_seconds: 1.0,
            seconds: None,
            lost_seconds: 0.5,
            first_byte_seconds: None,
            usage: Some(Usage { input: 10, output: 1, ..Usage::default() }),
            cost_usd: Some(0.5),
            responder: Some(responder()),
            repairs: Vec::new(),
            request: Some(self.blobs.put(format!("before {content}").as_bytes()).unwrap()),
            body: Some(self.blobs.put(content.as_bytes()).unwrap()),
        });
        self.add(Event::ModelAnswered {
            answer: ModelResponse {
                native: None,
                content: content.into(),
                tool_calls: Vec::new(),
                extra: Map::new(),
                finish_reason: None,
                refused: false,
                usage: Usage::default(),
                cost_usd: None,
            },
        });
    }

    fn add_tool_result(&mut self, call_id: &str, is_malformed: bool) {
        self.add(Event::ToolReturned {
            call_id: call_id.into(),
            name: "shell".into(),
            shown: format!("output of {call_id}"),
            full: None,
            exit_status: Some(0),
            seconds: 4.0,
            malformed: is_malformed,
            edited: None,
        });
    }

    fn add_snapshot(&mut self, snapshot: &str) {
        let snapshot = snapshot.to_owned();
        self.add(Event::SnapshotTaken {
            snapshot,
            changed: 1,
            removed: 0,
            bytes: 7,
            ms: 1.0,
            outside: None,
        });
    }

    fn read(&self) -> Result<ResumePoint, String> {
        let is_resumable = |fault: &Fault| fault.cause != proctor_types::FaultCause::Rejected;
        ResumePoint::read(&self.folder.path().join("trajectory.jsonl"), &self.blobs, &is_resumable)
            .unwrap()
    }
}

/// Records two responses. The first has a snapshot. The second has one finished call, but no
/// snapshot.
fn create_record_with_unfinished_step() -> (TestRecord, String) {
    let mut record = TestRecord::new();
    record.add_setup();
    record.add_response("one");
    record.add_tool_result("a", true);
    let tree = record.tree(&[("work.py", EntryKind::File, true)]);
    record.add_snapshot(&tree);
    record.add_response("two");
    record.add_tool_result("b", false);
    (record, tree)
}

#[test]
fn resume_point_keeps_the_bytes_of_every_attempt() {
    let (record, _) = create_record_with_unfinished_step();
    let past = record.read().unwrap();
    let bytes = |hash: &String| record.blobs.get(hash).unwrap();
    let exchanges = past.attempts.iter().map(|one| (bytes(&one.request), bytes(&one.response)));
    let wanted = ["one", "two"]
        .map(|text| (format!("before {text}").into_bytes(), text.as_bytes().to_vec()));
    assert_eq!(exchanges.collect::<Vec<_>>(), wanted);
}

#[test]
fn resume_point_keeps_all_responses_but_only_calls_before_the_last_snapshot() {
    let (record, tree) = create_record_with_unfinished_step();
    let past = record.read().unwrap();
    assert_eq!((past.try_number, past.complete_steps), (3, 1), "the same try");
    assert_eq!(past.tree, tree);
    let answers: Vec<_> = past.steps.iter().map(|step| step.response.content.as_str()).collect();
    assert_eq!(answers, ["one", "two"], "paid responses are not requested again");
    assert_eq!(past.steps[0].calls[0].shown_output, "output of a");
    assert!(past.steps[1].calls.is_empty(), "calls after the last snapshot run again");
    assert_eq!((past.tool_calls, past.malformed_calls), (1, 1));
    assert_eq!(past.responders.sorted_counts(), [(&responder(), 2)]);
    assert!(!past.is_limit_recorded && !past.is_final_response_recorded);
}

#[test]
fn resume_point_counts_spent_budget() {
    let (record, _) = create_record_with_unfinished_step();
    let used = record.read().unwrap().prior_usage;
    assert_eq!(
        (used.spending.steps, used.spending.input_tokens, used.spending.output_tokens),
        (2, 20, 2)
    );
    assert_eq!(used.spending.cost_usd, 1.0);
    assert_eq!(used.wait_time, Duration::from_secs(10));
    let waits = RequestWaits { shared_limits: 2.0, rate_limits: 4.0, retries: 4.0 };
    assert_eq!(used.wait_totals, waits);
    assert_eq!(
        used.tool_time,
        Duration::from_secs(4),
        "the time of a call that will run again is not counted yet"
    );
}

#[test]
fn lost_response_is_charged_but_not_counted_as_a_step() {
    let (mut record, _) = create_record_with_unfinished_step();
    record.add_response("three");
    let text = std::fs::read_to_string(record.folder.path().join("trajectory.jsonl")).unwrap();
    let whole = text.trim_end().rsplit_once('\n').unwrap().0;
    std::fs::write(record.folder.path().join("trajectory.jsonl"), format!("{whole}\n")).unwrap();
    let past = record.read().unwrap();
    assert_eq!((past.steps.len(), past.prior_usage.spending.steps), (2, 2));
    assert_eq!(past.prior_usage.spending.input_tokens, 30, "its request was charged");
}

#[test]
fn calls_discarded_by_an_earlier_resume_stay_discarded() {
    let (mut record, tree) = create_record_with_unfinished_step();
    let stands_to = record.read().unwrap().last_kept_seq;
    record.add(Event::TrialResumed { snapshot: tree.clone(), whole_steps: 1, stands_to });
    record.add_tool_result("again", false);
    let later = record.tree(&[("later.py", EntryKind::File, true)]);
    record.add_snapshot(&later);
    let past = record.read().unwrap();
    assert_eq!((past.complete_steps, past.tree), (2, later));
    let calls: Vec<_> = past.steps[1].calls.iter().map(|call| call.call_id.as_str()).collect();
    assert_eq!(calls, ["again"], "the interrupted call is gone");
}

/// A fault ends a try and the trial. The recorded events are kept, but the time between the last
/// good event and the fault is not charged.
#[test]
fn fault_keeps_all_responses_and_does_not_charge_its_time() {
    let (mut record, tree) = create_record_with_unfinished_step();
    let before = record.read().unwrap();
    record.add(Event::ModelAttempted {
        attempt: 1,
        status: Some(503),
        error: None,
        wait_seconds: 60.0,
        queued_seconds: 0.0,
        shared_seconds: 0.0,
        seconds: None,
        lost_seconds: 30.0,
        first_byte_seconds: None,
        usage: None,
        cost_usd: None,
        responder: None,
        repairs: Vec::new(),
        request: None,
        body: None,
    });
    let fault = Fault::new(FaultLayer::Model, "503");
    let ending = Ending::InfrastructureFault { fault: fault.clone() };
    let outcome = Box::new(proctor_types::Outcome::from_ending(3, ending));
    record.add(Event::TryFailed { fault, will_retry: false });
    record.add(Event::TrialEnded { outcome, packed: None });
    let past = record.read().unwrap();
    assert_eq!((past.try_number, past.steps.len(), past.tree.as_str()), (3, 2, tree.as_str()));
    assert_eq!(
        past.prior_usage.wait_time, before.prior_usage.wait_time,
        "only waits up to the last response count"
    );
    assert_eq!(
        (past.prior_usage.lost_time, before.prior_usage.lost_time.as_millis()),
        (before.prior_usage.lost_time, 1000)
    );
    assert!(
        past.clock_seconds <= before.clock_seconds
            && past.prior_usage.elapsed <= before.prior_usage.elapsed
    );
}

/// Failed attempts are billed, but do not count toward the trial's own limits after a resume.
#[test]
fn failed_attempts_are_charged_apart_from_delivered_responses() {
    let (mut record, _) = create_record_with_unfinished_step();
    let before = record.read().unwrap().prior_usage.spending;
    for error in [Some("the stream ended"), None] {
        record.add(Event::ModelAttempted {
            attempt: 1,
            status: Some(200),
            error: error.map(str::to_owned),
            wait_seconds: 0.0,
            queued_seconds: 0.0,
            shared_seconds: 0.0,
            seconds: None,
            lost_seconds: 0.0,
            first_byte_seconds: None,
            usage: Some(Usage { input: 7, output: 3, ..Usage::default() }),
            cost_usd: Some(0.5),
            responder: None,
            repairs: Vec::new(),
            request: None,
            body: None,
        });
    }
    let spent = record.read().unwrap().prior_usage.spending;
    assert_eq!(spent.input_tokens, before.input_tokens + 14);
    assert_eq!(spent.failed.input_tokens, before.failed.input_tokens + 7);
    assert_eq!(spent.delivered().output_tokens, before.delivered().output_tokens + 3);
}

/// If the sandbox fails every time after the same response, the model must be called again. In
/// contrast, an endpoint may simply be down for longer.
#[test]
fn sandbox_failing_twice_after_one_response_prevents_resume() {
    let said = |layer: FaultLayer, between: &dyn Fn(&mut TestRecord)| {
        let (mut record, tree) = create_record_with_unfinished_step();
        let fail = |record: &mut TestRecord| {
            record.add(Event::TryFailed { fault: Fault::new(layer, "gone"), will_retry: true });
        };
        fail(&mut record);
        let stands_to = record.read().unwrap().last_kept_seq;
        record.add(Event::TrialResumed { snapshot: tree, whole_steps: 1, stands_to });
        between(&mut record);
        fail(&mut record);
        record.read().map(|past| past.steps.len())
    };
    let twice = "its sandbox failed twice after the same response";
    assert_eq!(said(FaultLayer::Sandbox, &|_| ()), Err(twice.to_owned()));
    assert_eq!(said(FaultLayer::Sandbox, &|record| record.add_response("three")), Ok(3));
    assert_eq!(said(FaultLayer::Model, &|_| ()), Ok(2));
}

#[test]
fn idle_time_is_not_charged() {
    let mut reader = ResumePointBuilder::default();
    let mut at = |t_mono: f64, event: Event| {
        let envelope =
            Envelope { v: 2, seq: 1, try_number: 1, step: 0, t_mono, t_wall: 0.0, event };
        reader.apply(envelope).unwrap();
    };
    let note = || Event::Noted { note: Map::new() };
    at(0.0, note());
    at(5.0, note());
    at(100.0, Event::TrialResumed { snapshot: String::new(), whole_steps: 0, stands_to: 1 });
    at(107.0, note());
    assert_eq!((reader.idle_seconds, reader.last_event_seconds), (95.0, 107.0));
}

#[test]
fn unresumable_trial_reports_the_reason() {
    let said = |make: &dyn Fn(&mut TestRecord)| {
        let mut record = TestRecord::new();
        make(&mut record);
        record.read().err().unwrap()
    };
    let not_begun = said(&|record| record.add(Event::Noted { note: Map::new() }));
    assert_eq!(not_begun, "its agent had not started");
    let failed = said(&|record| {
        record.add_setup();
        let fault = Fault::new(FaultLayer::Model, "400").cause(proctor_types::FaultCause::Rejected);
        record.add(Event::TryFailed { fault, will_retry: false });
    });
    assert_eq!(failed, "it ended with a fault");
    let large = said(&|record| {
        record.add_setup();
        let tree = record.tree(&[("huge.bin", EntryKind::File, false)]);
        record.add_snapshot(&tree);
    });
    assert_eq!(large, "huge.bin is too large for the record");
    let pipe = said(&|record| {
        record.add_setup();
        let tree = record.tree(&[("pipe", EntryKind::Other, false)]);
        record.add_snapshot(&tree);
    });
    assert_eq!(pipe, "pipe is a pipe, a socket or a device");
}

#[test]
fn outside_state_is_restored_or_the_trial_restarts() {
    let (mut record, tree) = create_record_with_unfinished_step();
    assert_eq!(record.read().unwrap().outside_state, None);
    let taken = |state| Event::SnapshotTaken {
        snapshot: tree.clone(),
        changed: 0,
        removed: 0,
        bytes: 0,
        ms: 1.0,
        outside: Some(state),
    };
    record.add(taken(OutsideState::Unkept("a server was running".into())));
    assert!(record.read().unwrap_err().ends_with(": a server was running"));
    let digest = record.blobs.put(br#"{"changed":[],"removed":["tmp/a"]}"#).unwrap();
    record.add(taken(OutsideState::Kept(digest.clone())));
    assert_eq!(record.read().unwrap().outside_state, Some(digest));
}

#[test]
fn resume_point_reads_interruptions_from_the_journal() {
    let (mut record, tree) = create_record_with_unfinished_step();
    assert!(record.read().unwrap().interruptions.is_empty());
    let note =
        Map::from_iter([(RESTART_REASON_KEY.to_owned(), Value::from("a server was running"))]);
    record.add(Event::Noted { note });
    record.add(Event::TrialResumed { snapshot: tree, whole_steps: 1, stands_to: u64::MAX });
    let all = record.read().unwrap().interruptions;
    assert_eq!(all.to_string(), "started over (a server was running), then resumed after step 1");
}
