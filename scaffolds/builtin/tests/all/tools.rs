//! Tests the scaffold `tools` in a real sandbox.

use proctor_scaffold_api::{Finish, Stop};
use proctor_scaffolds::builtin_scaffold;
use proctor_types::{Budget, BudgetKind, ExitCause, FaultLayer, Message};
use serde_json::json;

use crate::support::{ScriptedSession, SessionAction, text_response, tool_call_response};

async fn drive(session: &mut ScriptedSession) -> Result<Finish, Stop> {
    builtin_scaffold("tools").unwrap().unwrap().drive(session).await
}

/// Runs the calls of one response, and returns the text that the model sees for each.
async fn collect_outputs(session: &mut ScriptedSession) -> Vec<String> {
    assert_eq!(drive(session).await, Err(Stop::Budget(BudgetKind::Steps)));
    session.tool_results().iter().map(|done| done.shown_output.clone()).collect()
}

#[tokio::test]
async fn tools_solve_a_task() {
    let mut session = ScriptedSession::new(vec![
        tool_call_response(&[("search", r#"{"pattern":"def f","glob":null,"path":null,"ignore_case":null}"#)]),
        tool_call_response(&[
            ("edit", r#"{"command":"view","path":"src/f.py"}"#),
            ("edit", r#"{"command":"replace","path":"src/f.py","old_str":"return 1","new_str":"return 2"}"#),
        ]),
        tool_call_response(&[("shell", r#"{"command":"cat src/f.py; echo $TASK_VARIABLE >&2; exit 3","timeout":10}"#)]),
        tool_call_response(&[("submit", ""), ("shell", r#"{"command":"touch after"}"#)]),
    ])
    .await;
    session.write("src/f.py", "def f():\n    return 1\n");
    assert_eq!(drive(&mut session).await, Ok(Finish::Submitted));
    assert_eq!(session.read("src/f.py"), "def f():\n    return 2\n");
    assert!(!session.exists("after"), "calls after submit are not run");
    let done = session.tool_results();
    let shown: Vec<_> = done.iter().map(|done| done.shown_output.as_str()).collect();
    assert_eq!(shown[0], "src/f.py:1: def f():");
    assert_eq!(shown[1], "     1\tdef f():\n     2\t    return 1\n");
    assert!(shown[2].ends_with("     1\tdef f():\n     2\t    return 2"), "{}", shown[2]);
    assert_eq!(shown[3], "def f():\n    return 2\nset\n[exit status 3]");
    assert_eq!(shown[4], "Submitted.");
    assert!(shown[5].contains("Not run"));
    assert_eq!(done[3].exit_status, Some(3));
    assert!(done.iter().all(|done| !done.is_malformed && done.full_output.is_none()));
    // Each call is recorded before its result is.
    let kinds: Vec<_> = session.actions.iter().skip(3).take(5).map(kind).collect();
    assert_eq!(kinds, ["asked", "called", "returned", "called", "returned"]);
}

#[tokio::test]
async fn tools_ignore_a_proxys_prefix_of_their_names() {
    let mut session = ScriptedSession::new(vec![
        tool_call_response(&[("mcp__tools__shell", r#"{"command":"echo a"}"#)]),
        tool_call_response(&[("mcp__tools__submit", "")]),
    ])
    .await;
    assert_eq!(drive(&mut session).await, Ok(Finish::Submitted));
    let done: Vec<_> = session
        .tool_results()
        .iter()
        .map(|done| (done.name.clone(), done.shown_output.clone(), done.is_malformed))
        .collect();
    let wanted = [("shell", "a", false), ("submit", "Submitted.", false)];
    assert_eq!(done, wanted.map(|(name, shown, bad)| (name.to_owned(), shown.to_owned(), bad)));
    // The endpoint gets the name back that it sent.
    let asks = session.model_requests();
    let Message::Assistant { tool_calls, .. } = &asks[1].messages[2] else {
        panic!("{:?}", asks[1].messages[2])
    };
    assert_eq!(tool_calls[0].name, "mcp__tools__shell");
}

fn kind(action: &SessionAction) -> &'static str {
    match action {
        SessionAction::Asked(_) => "asked",
        SessionAction::Called { .. } => "called",
        SessionAction::Returned(_) => "returned",
        SessionAction::Noted(_) | SessionAction::Patched(_) | SessionAction::EndedStep => "other",
    }
}

#[tokio::test]
async fn tools_history_is_append_only_and_results_are_in_order() {
    let mut session = ScriptedSession::new(vec![
        tool_call_response(&[
            ("shell", r#"{"command":"echo a"}"#),
            ("shell", r#"{"command":"echo b"}"#),
        ]),
        text_response("Let me think."),
        tool_call_response(&[("shell", r#"{"command":"true"}"#)]),
    ])
    .await;
    session.brief.announced_budget = Some(Budget { steps: Some(7), ..Budget::default() });
    assert_eq!(drive(&mut session).await, Err(Stop::Budget(BudgetKind::Steps)));
    let asks = session.model_requests();
    for pair in asks.windows(2) {
        assert!(pair[1].messages.starts_with(&pair[0].messages));
        assert_eq!(pair[0].tools, pair[1].tools);
    }
    let messages = &asks.last().unwrap().messages;
    let Message::User { content } = &messages[1] else { panic!("{:?}", messages[1]) };
    assert!(content.contains("Make f return 2.") && content.contains("- 7 responses"), "{content}");
    assert_eq!(
        messages[3..5],
        [
            Message::Tool { call_id: "call-0".into(), content: "a".into() },
            Message::Tool { call_id: "call-1".into(), content: "b".into() },
        ]
    );
    assert!(matches!(&messages[6], Message::User { content } if content.contains("no tool call")));
    assert_eq!(
        messages[8],
        Message::Tool { call_id: "call-0".into(), content: "[no output]".into() }
    );
}

#[tokio::test]
async fn tools_answer_and_count_invalid_calls() {
    let mut session = ScriptedSession::new(vec![tool_call_response(&[
        ("shell", r#"{"command": "ls"#),
        ("shell", r#"{"command": 5}"#),
        ("edit", r#"{"command":"rename","path":"x"}"#),
        ("edit", r#"{"command":"create","path":"x"}"#),
        ("edit", r#"{"command":"view"}"#),
        ("search", "{}"),
        ("find", "{}"),
        ("shell", r#"{"command":"true","cwd":"/"}"#),
        ("shell", r#"{"command":"true","timeout":0}"#),
        ("shell", r#"{"command":"true","timeout":0.5}"#),
        ("shell", r#"{"command":"true","timeout":null}"#),
        ("shell", r#"{"command":"true","timeout":60.0}"#),
    ])])
    .await;
    let shown = collect_outputs(&mut session).await;
    let expected = [
        "not valid JSON",
        "field `command`: invalid type: integer `5`, expected a string. \
         Expected: {\"command\": string, \"timeout\": integer or null}",
        "field `command`: unknown variant `rename`",
        "`create` needs the field `file_text`",
        "missing field `path`",
        "`pattern`, `glob` or both",
        "The tool `find` does not exist. The tools are `shell`, `edit`, `search`, `submit`",
        "unknown field `cwd`",
        "at least 1 second",
        "field `timeout`: invalid type: floating point `0.5`",
        "[no output]",
        "[no output]",
    ];
    for (shown, expected) in shown.iter().zip(expected) {
        assert!(shown.contains(expected), "{shown:?} does not say {expected:?}");
    }
    let malformed: Vec<_> = session.tool_results().iter().map(|done| done.is_malformed).collect();
    assert_eq!(malformed, [[true; 10].as_slice(), &[false; 2]].concat());
    // Arguments that are not JSON are recorded as they are.
    let SessionAction::Called { arguments, .. } = &session.actions[1] else { panic!() };
    assert_eq!(arguments, r#"{"command": "ls"#);
}

#[tokio::test]
async fn tools_nudge_idle_models_and_then_end() {
    let mut cut = text_response("I was about to");
    cut.finish_reason = Some("length".into());
    let mut session = ScriptedSession::new(vec![
        text_response("Hm."),
        cut,
        text_response("Hm."),
        text_response("Hm."),
    ])
    .await;
    let finish = drive(&mut session).await.unwrap();
    assert_eq!(
        finish,
        Finish::Exited {
            cause: ExitCause::EmptyTurn,
            reason: "3 responses in a row without a tool call".into()
        }
    );
    let asks = session.model_requests();
    assert_eq!(asks.len(), 3);
    let Some(Message::User { content }) = asks[2].messages.last() else { panic!() };
    assert!(content.contains("cut off at the output limit"), "{content}");
}

#[tokio::test]
async fn tools_mention_truncation_after_results() {
    let mut cut =
        tool_call_response(&[("shell", r#"{"command":"echo a"}"#), ("shell", r#"{"comm"#)]);
    cut.finish_reason = Some("length".into());
    let mut session = ScriptedSession::new(vec![cut]).await;
    assert_eq!(drive(&mut session).await, Err(Stop::Budget(BudgetKind::Steps)));
    let last = session.model_requests()[1].messages.clone();
    assert!(
        matches!(&last[4], Message::Tool { content, .. } if content.contains("not valid JSON"))
    );
    assert!(matches!(&last[5], Message::User { content } if content.contains("cut off")));
}

#[tokio::test]
async fn edit_is_exact_and_can_be_undone() {
    let mut session = ScriptedSession::new(vec![tool_call_response(&[
        ("edit", r#"{"command":"create","path":"new/n.txt","file_text":"one\ntwo\n"}"#),
        (
            "edit",
            r#"{"command":"insert","path":"new/n.txt","insert_line":1,"insert_text":"between"}"#,
        ),
        ("edit", r#"{"command":"insert","path":"new/n.txt","insert_line":9,"insert_text":"x"}"#),
        ("edit", r#"{"command":"replace","path":"new/n.txt","old_str":"t","new_str":"x"}"#),
        ("edit", r#"{"command":"undo","path":"new/n.txt"}"#),
        ("shell", r#"{"command":"cat new/n.txt; echo three >> new/n.txt"}"#),
        ("edit", r#"{"command":"undo","path":"new/n.txt"}"#),
        ("edit", r#"{"command":"undo","path":"other"}"#),
        ("edit", r#"{"command":"view","path":"new"}"#),
        ("edit", r#"{"command":"view","path":"gone"}"#),
        ("edit", r#"{"command":"create","path":"made","file_text":"x"}"#),
        ("edit", r#"{"command":"undo","path":"made"}"#),
    ])])
    .await;
    let shown = collect_outputs(&mut session).await;
    assert!(shown[0].contains("(2 lines)"));
    assert!(shown[1].contains("     2\tbetween\n"), "{}", shown[1]);
    assert!(shown[2].contains("has 3 lines"), "{}", shown[2]);
    assert!(shown[3].contains("occurs 2 times, at lines 2, 3"), "{}", shown[3]);
    assert!(shown[4].contains("Undid"));
    assert_eq!(shown[5], "one\ntwo");
    assert!(shown[6].contains("changed by something else"), "{}", shown[6]);
    assert!(shown[7].contains("No edit"));
    assert!(shown[8].contains("n.txt\t14 bytes"), "{}", shown[8]);
    assert!(shown[9].contains("does not exist"));
    assert!(shown[11].contains("was removed") && !session.exists("made"));
    assert!(session.tool_results().iter().all(|done| !done.is_malformed));
    assert_eq!(session.read("new/n.txt"), "one\ntwo\nthree\n");
}

/// Some servers decode a string whose text is JSON.
#[tokio::test]
async fn edit_writes_decoded_json_content_as_text() {
    let mut session = ScriptedSession::new(vec![tool_call_response(&[
        ("edit", r#"{"command":"create","path":"a.json","file_text":{"I":1,"IV":4}}"#),
        ("edit", r#"{"command":"replace","path":"a.json","old_str":4,"new_str":[4]}"#),
        ("edit", r#"{"command":"create","path":{},"file_text":"x"}"#),
        ("shell", r#"{"command":["ls"]}"#),
    ])])
    .await;
    collect_outputs(&mut session).await;
    assert_eq!(session.read("a.json"), r#"{"I":1,"IV":[4]}"#);
    let malformed: Vec<_> = session.tool_results().iter().map(|done| done.is_malformed).collect();
    assert_eq!(malformed, [false, false, true, true]);
}

#[tokio::test]
async fn edit_keeps_bytes_of_binary_files() {
    let mut session = ScriptedSession::new(vec![tool_call_response(&[
        ("edit", r#"{"command":"replace","path":"b","old_str":"old","new_str":"new"}"#),
        ("edit", r#"{"command":"view","path":"b"}"#),
    ])])
    .await;
    session.write("b", b"\xff\xfe old \x80\n");
    let shown = collect_outputs(&mut session).await;
    assert!(shown[1].contains("\u{FFFD}\u{FFFD} new"), "{}", shown[1]);
    let bytes = std::fs::read(session.folder.path().join("b")).unwrap();
    assert_eq!(bytes, b"\xff\xfe new \x80\n");
}

#[tokio::test]
async fn tools_clip_long_output_and_record_all_of_it() {
    let mut session = ScriptedSession::new(vec![tool_call_response(&[(
        "shell",
        r#"{"command":"seq 1 100000; exit 1"}"#,
    )])])
    .await;
    let shown = collect_outputs(&mut session).await;
    let text = &shown[0];
    assert!(text.starts_with("1\n2\n") && text.ends_with("100000\n[exit status 1]"), "{text}");
    assert!(text.contains("tokens in") && text.contains("omitted"));
    assert!(text.len() < 60_000, "{}", text.len());
    let whole: String = (1..=100_000).map(|n| format!("{n}\n")).collect();
    assert_eq!(session.tool_results()[0].full_output.as_deref(), Some(whole.as_bytes()));
}

#[tokio::test]
async fn tools_report_command_timeouts() {
    let mut session = ScriptedSession::new(vec![tool_call_response(&[(
        "shell",
        r#"{"command":"echo begun; sleep 60","timeout":1}"#,
    )])])
    .await;
    let shown = collect_outputs(&mut session).await;
    assert!(shown[0].starts_with("begun\n[timed out after 1"), "{}", shown[0]);
    assert_eq!(session.tool_results()[0].exit_status, None);
}

#[tokio::test]
async fn search_finds_lines_and_files_in_the_work_directory() {
    let mut session = ScriptedSession::new(vec![tool_call_response(&[
        ("search", r#"{"pattern":"NEEDLE","ignore_case":true}"#),
        ("search", r#"{"glob":"*.txt"}"#),
        ("search", r#"{"pattern":"needle","path":"a"}"#),
        ("search", r#"{"pattern":"needle","path":"a/x.py"}"#),
        ("search", r#"{"pattern":"absent"}"#),
        ("search", r#"{"pattern":"("}"#),
    ])])
    .await;
    session.write("a/x.py", "hay\nneedle = 1\n");
    session.write("b.txt", "Needle\n");
    let shown = collect_outputs(&mut session).await;
    assert_eq!(shown[0], "a/x.py:2: needle = 1\nb.txt:1: Needle");
    assert_eq!(shown[1], "b.txt");
    assert_eq!(shown[2], "a/x.py:2: needle = 1");
    assert_eq!(shown[3], "a/x.py:2: needle = 1");
    assert_eq!(shown[4], "No matches.");
    assert!(shown[5].contains("pattern: "), "{}", shown[5]);
}

#[tokio::test]
async fn broken_sandbox_is_a_fault_and_hidden_from_the_model() {
    let mut session = ScriptedSession::new(vec![
        tool_call_response(&[("shell", r#"{"command":"true"}"#)]),
        text_response(""),
    ])
    .await;
    session.break_sandbox().await;
    let Err(Stop::Fault(fault)) = drive(&mut session).await else { panic!() };
    assert_eq!(fault.layer, FaultLayer::Sandbox);
    assert_eq!(session.tool_results().len(), 0);
    assert_eq!(session.model_requests().len(), 1);
}

#[tokio::test]
async fn full_context_window_ends_the_trial_before_the_request() {
    let mut session = ScriptedSession::new(vec![
        tool_call_response(&[("shell", r#"{"command":"true"}"#)]),
        tool_call_response(&[("submit", "{}")]),
    ])
    .await;
    // After the first response, the conversation has 110 tokens, and the single result has 10 more.
    session.brief.context_window = Some(120);
    let finish = drive(&mut session).await.unwrap();
    assert_eq!(finish, Finish::exit("context window full: 120 tokens of 120"));
    assert_eq!(session.model_requests().len(), 1);
}

#[test]
fn factors_have_every_prompt_text() {
    let factors = builtin_scaffold("tools").unwrap().unwrap().factors();
    assert_eq!(factors["settings"]["shell"]["output_tokens"], json!(8000));
    assert!(factors["prompts"]["system"].as_str().unwrap().contains("submit"));
    assert_eq!(factors["tools"].as_array().unwrap().len(), 4);
}
