//! Tests the complete text of the first messages.

use proctor_scaffolds::builtin_scaffold;
use proctor_types::{Budget, Message};

use crate::support::ScriptedSession;

async fn task_message(scaffold: &str, announced_budget: Option<Budget>) -> String {
    let mut session = ScriptedSession::new(Vec::new()).await;
    session.brief.workdir = "/testbed".into();
    session.brief.announced_budget = announced_budget;
    drop(builtin_scaffold(scaffold).unwrap().unwrap().drive(&mut session).await);
    match &session.model_requests()[0].messages[..] {
        [Message::System { content: system }, Message::User { content }] => {
            assert!(!system.contains("{{") && !system.contains("{%"));
            content.clone()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn hidden_budget_is_not_mentioned() {
    for announced in [None, Some(Budget::default())] {
        assert_eq!(
            task_message("tools", announced).await,
            "The repository is at `/testbed`. Every command starts there in a new shell, and is killed \
             after 30 seconds.\n\n<task>\nMake f return 2.\n</task>\n"
        );
    }
}

#[tokio::test]
async fn announced_limits_are_listed_one_per_line() {
    let budget = Budget { steps: Some(50), cost_usd: Some(1.5), ..Budget::default() };
    assert_eq!(
        task_message("bash", Some(budget)).await,
        "The repository is at `/testbed`. Every command starts there, and is \
         killed after 30 seconds.\n\n\
         <task>\nMake f return 2.\n</task>\n\nYour limits:\n- 50 responses with one command each\n\
         - 1.5 US dollars\nWhen a limit is reached, your work is graded as it is.\n"
    );
}
