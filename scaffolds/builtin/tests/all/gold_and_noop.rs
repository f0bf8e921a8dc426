//! Tests the scaffolds `gold` and `noop`.

use proctor_scaffold_api::Finish;
use proctor_scaffolds::builtin_scaffold;

use crate::support::{ScriptedSession, SessionAction};

#[tokio::test]
async fn gold_applies_its_patch_and_submits() {
    let gold = builtin_scaffold("gold").unwrap().unwrap();
    let mut session = ScriptedSession::new(Vec::new()).await;
    let finish = gold.drive(&mut session).await.unwrap();
    assert_eq!(finish, Finish::exit("the task has no gold patch"));
    session.brief.gold = Some("diff --git a/x b/x\n".into());
    assert_eq!(gold.drive(&mut session).await.unwrap(), Finish::Submitted);
    assert_eq!(session.actions, [SessionAction::Patched("diff --git a/x b/x\n".into())]);
}

#[tokio::test]
async fn noop_does_nothing() {
    let mut session = ScriptedSession::new(Vec::new()).await;
    let noop = builtin_scaffold("noop").unwrap().unwrap();
    assert_eq!(noop.drive(&mut session).await.unwrap(), Finish::Submitted);
    assert_eq!(session.actions, []);
}
