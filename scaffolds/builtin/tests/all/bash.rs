//! Tests the scaffold `bash` in a real sandbox.

use proctor_scaffold_api::{Finish, Stop};
use proctor_scaffolds::builtin_scaffold;
use proctor_types::{BudgetKind, Message};
use serde_json::json;

use crate::support::{ScriptedSession, SessionAction, text_response};

async fn drive(session: &mut ScriptedSession) -> Result<Finish, Stop> {
    builtin_scaffold("bash").unwrap().unwrap().drive(session).await
}

#[tokio::test]
async fn bash_runs_one_block_per_response_until_the_submit_line() {
    let mut session = ScriptedSession::new(vec![
        text_response(
            "Look.\n```bash\ncat > f <<'E'\nproctor\nE\necho \"it's $TASK_VARIABLE\"\n```",
        ),
        text_response("```bash\necho proctor-submit; cat f\n```"),
        text_response("```bash\nproctor-submit\n```"),
    ])
    .await;
    assert_eq!(drive(&mut session).await, Ok(Finish::Submitted));
    assert_eq!(session.read("f"), "proctor\n");
    let shown: Vec<_> =
        session.tool_results().iter().map(|done| done.shown_output.clone()).collect();
    assert_eq!(shown, ["it's set", "proctor-submit\nproctor", "Submitted."]);
    let asks = session.model_requests();
    assert_eq!(asks.len(), 3);
    assert!(asks.iter().all(|ask| ask.tools.is_empty()));
    assert_eq!(asks[1].messages.last(), Some(&Message::User { content: "it's set".into() }));
    assert_eq!(
        session.actions[4],
        SessionAction::Called {
            id: "bash-2".into(),
            name: "bash".into(),
            arguments: json!({ "command": "echo proctor-submit; cat f" }),
        }
    );
}

#[tokio::test]
async fn bash_counts_responses_without_exactly_one_block() {
    let mut cut = text_response("```bash\ntouch half");
    cut.finish_reason = Some("length".into());
    let mut session = ScriptedSession::new(vec![
        text_response("```bash\ntouch a\n```\n```bash\ntouch b\n```"),
        cut,
        text_response("```bash\nls\n```"),
        text_response("no block"),
    ])
    .await;
    assert_eq!(drive(&mut session).await, Err(Stop::Budget(BudgetKind::Steps)));
    let done = session.tool_results();
    assert!(done[0].shown_output.contains("2 bash blocks") && done[0].is_malformed);
    assert!(
        done[1].shown_output.contains("not closed") && done[1].shown_output.contains("cut off")
    );
    assert_eq!(done[2].shown_output, "[no output]", "no file was created");
    assert!(done[3].is_malformed && !done[2].is_malformed);
}

#[tokio::test]
async fn bash_responses_without_a_command_end_the_loop() {
    let mut session = ScriptedSession::new(vec![
        text_response("a"),
        text_response("b"),
        text_response("c"),
        text_response("d"),
    ])
    .await;
    let Ok(Finish::Exited { reason: why, .. }) = drive(&mut session).await else { panic!() };
    assert!(why.starts_with("3 responses in a row"), "{why}");
    assert_eq!(session.tool_results().len(), 3);
}
