//! Tests the scaffold `replay` in a real sandbox. Each test records actions of another scaffold and
//! re-runs them.

use proctor_scaffold_api::{Finish, Scaffold, Stop};
use proctor_scaffolds::builtin_scaffold;
use proctor_types::{Ending, Envelope, Event, Outcome, Spending};
use serde_json::json;

use crate::support::{ScriptedSession, SessionAction, text_response, tool_call_response};

/// Builds a trajectory from what a scaffold did in its session.
fn trajectory(
    session: &ScriptedSession,
    responses: &[proctor_types::ModelResponse],
    ending: Ending,
) -> String {
    let mut answers = responses.iter();
    let mut events = Vec::new();
    for did in &session.actions {
        match did {
            SessionAction::Asked(_) => {
                events.extend(answers.next().map(|a| Event::ModelAnswered { answer: a.clone() }));
            }
            SessionAction::Called { id, name, arguments } => events.push(Event::ToolCalled {
                call_id: id.clone(),
                name: name.clone(),
                arguments: arguments.clone(),
            }),
            SessionAction::Returned(done) => events.push(Event::ToolReturned {
                edited: None,
                call_id: done.call_id.clone(),
                name: done.name.clone(),
                shown: done.shown_output.clone(),
                full: None,
                exit_status: done.exit_status,
                seconds: 0.0,
                malformed: done.is_malformed,
            }),
            SessionAction::Noted(_) | SessionAction::Patched(_) | SessionAction::EndedStep => {}
        }
    }
    events.push(Event::TrialEnded {
        outcome: Box::new(Outcome {
            schema_version: 1,
            ending,
            try_number: 1,
            spent: Spending::default(),
            tool_calls: None,
            malformed_calls: 0,
            wall_seconds: 1.0,
            waited_seconds: 0.0,
            tool_seconds: 0.0,
            left_out: Vec::new(),
            not_enforced: Vec::new(),
            noise: None,
            responders: Default::default(),
            changes: Default::default(),
            interruptions: Default::default(),
        }),
        packed: None,
    });
    let line = |(seq, event)| {
        let (try_number, step, t_mono, t_wall) = (1, 0, 0.0, 0.0);
        let envelope = Envelope { v: 1, seq, try_number, step, t_mono, t_wall, event };
        serde_json::to_string(&envelope).unwrap() + "\n"
    };
    (1..).zip(events).map(line).collect()
}

async fn record_trajectory(
    scaffold: &dyn Scaffold,
    responses: Vec<proctor_types::ModelResponse>,
    ending: Ending,
) -> (tempfile::TempDir, std::path::PathBuf) {
    let mut session = ScriptedSession::new(responses.clone()).await;
    session.write("f", "one\n");
    drop(scaffold.drive(&mut session).await);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trajectory.jsonl");
    std::fs::write(&path, trajectory(&session, &responses, ending)).unwrap();
    (folder, path)
}

#[tokio::test]
async fn replay_of_same_actions_reports_no_difference() {
    let answers = vec![
        tool_call_response(&[
            ("edit", r#"{"command":"replace","path":"f","old_str":"one","new_str":"two"}"#),
            ("shell", r#"{"command": "no JSON"#),
            ("shell", r#"{"command":"cat f; exit 4"}"#),
        ]),
        text_response("thinking"),
        tool_call_response(&[("edit", r#"{"command":"undo","path":"f"}"#), ("submit", "")]),
    ];
    let tools = builtin_scaffold("tools").unwrap().unwrap();
    let (_folder, path) = record_trajectory(tools.as_ref(), answers, Ending::Submitted).await;
    let mut session = ScriptedSession::new(Vec::new()).await;
    session.write("f", "one\n");
    session.brief.replay = Some(path.clone());
    let replay = builtin_scaffold("replay").unwrap().unwrap();
    assert_eq!(replay.drive(&mut session).await, Ok(Finish::Submitted));
    assert_eq!(session.read("f"), "one\n");
    let ended = session.actions.iter().filter(|did| **did == SessionAction::EndedStep).count();
    assert_eq!(ended, 3, "one step per response");
    let summary = json!({
        "replay": "finished", "calls": 4, "differing": 0, "skipped": 1, "unreadable_lines": 0,
    });
    assert_eq!(session.notes(), [summary.as_object().unwrap()]);
}

#[tokio::test]
async fn replay_notes_the_first_differing_line() {
    let answers = vec![tool_call_response(&[("shell", r#"{"command":"echo same; cat f"}"#)])];
    let tools = builtin_scaffold("tools").unwrap().unwrap();
    let ending =
        Ending::Budget { budget: proctor_types::BudgetKind::Steps, scope: Default::default() };
    let (_folder, path) = record_trajectory(tools.as_ref(), answers, ending).await;
    let mut session = ScriptedSession::new(Vec::new()).await;
    session.write("f", "other\n");
    session.brief.replay = Some(path);
    let finish = builtin_scaffold("replay").unwrap().unwrap().drive(&mut session).await.unwrap();
    assert_eq!(finish, Finish::exit("the recorded trial ended with budget_steps"));
    let notes = session.notes();
    assert_eq!(notes.len(), 2);
    assert_eq!(notes[0]["line"], 2);
    assert_eq!(notes[0]["recorded"], "one");
    assert_eq!(notes[0]["now"], "other");
    assert_eq!(notes[1]["differing"], 1);
}

#[tokio::test]
async fn replay_runs_bash_blocks() {
    let answers = vec![
        text_response("```bash\necho two > f\n```"),
        text_response("nothing"),
        text_response("```bash\nproctor-submit\n```"),
    ];
    let bash = builtin_scaffold("bash").unwrap().unwrap();
    let (_folder, path) = record_trajectory(bash.as_ref(), answers, Ending::Submitted).await;
    let mut session = ScriptedSession::new(Vec::new()).await;
    session.brief.replay = Some(path);
    let finish = builtin_scaffold("replay").unwrap().unwrap().drive(&mut session).await;
    assert_eq!(finish, Ok(Finish::Submitted));
    assert_eq!(session.read("f"), "two\n");
    assert_eq!(session.notes().last().unwrap()["differing"], 0);
}

#[tokio::test]
async fn replay_without_events_is_a_fault() {
    let mut session = ScriptedSession::new(Vec::new()).await;
    session.write("empty", "\n");
    for name in ["missing", "empty"] {
        session.brief.replay = Some(session.folder.path().join(name));
        let Err(Stop::Fault(fault)) =
            builtin_scaffold("replay").unwrap().unwrap().drive(&mut session).await
        else {
            panic!()
        };
        assert!(fault.what.contains(name), "{fault}");
    }
}
