//! Determines how a trial with a user's program ended (see the table in `docs/reference/host.md`).

use proctor_sandbox_api::{describe_exit, wire::CommandExit};
use proctor_scaffold_api::Finish;
use proctor_types::{ExitCause, ModelResponse};

/// Maximum number of characters to quote from the last output.
const MAX_QUOTED_CHARS: usize = 300;

/// Returns how the trial ended if the program exited by itself.
pub(crate) fn finish_after_exit(
    exit: &CommandExit,
    last_response: Option<&ModelResponse>,
    stderr: &[u8],
) -> Finish {
    let status = describe_exit(exit);
    let (cause, why) = match last_response {
        None => {
            let why = format!("it ended with {status} before any response from the model");
            (ExitCause::Crashed, why)
        }
        Some(_) if exit.code != Some(0) => (ExitCause::Crashed, format!("it ended with {status}")),
        Some(last) if last.content.trim().is_empty() && last.tool_calls.is_empty() => {
            return agent_exit(ExitCause::EmptyTurn, "it ended after an empty response".into());
        }
        Some(_) => (ExitCause::Finished, "it ended without a submission".to_owned()),
    };
    agent_exit(cause, with_last_line(why, stderr))
}

/// Changes the ending for a protocol in which a program can only exit to show that it is done. If
/// the model's last response is text without tool calls, that counts as a submission.
pub(crate) fn upgrade_to_submission(
    finish: Finish,
    exit: &CommandExit,
    last_response: Option<&ModelResponse>,
) -> Finish {
    let text = last_response
        .is_some_and(|last| !last.content.trim().is_empty() && last.tool_calls.is_empty());
    if text && exit.code == Some(0) { Finish::Submitted } else { finish }
}

pub(crate) fn agent_exit(cause: ExitCause, reason: String) -> Finish {
    Finish::Exited { cause, reason: format!("the agent: {reason}") }
}

/// Appends the last line of stderr to the reason.
pub(crate) fn with_last_line(reason: String, stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    match text.lines().rev().map(str::trim).find(|line| !line.is_empty()) {
        Some(line) => {
            let line: String =
                line.chars().filter(|c| !c.is_control()).take(MAX_QUOTED_CHARS).collect();
            format!("{reason}: {line}")
        }
        None => reason,
    }
}

#[cfg(test)]
mod tests {
    use proctor_types::{ModelResponse, Usage};
    use serde_json::Map;

    use super::*;

    fn text_response(content: &str) -> ModelResponse {
        ModelResponse {
            content: content.into(),
            tool_calls: Vec::new(),
            extra: Map::new(),
            native: None,
            finish_reason: None,
            refused: false,
            usage: Usage::default(),
            cost_usd: None,
        }
    }

    #[test]
    fn exit_cause_depends_on_the_last_response_and_status() {
        let status = |code: i32| CommandExit { code: Some(code), ..CommandExit::default() };
        let killed = CommandExit { signal: Some(9), ..CommandExit::default() };
        for (end, last, cause) in [
            (status(0), None, ExitCause::Crashed),
            (status(3), Some(text_response("x")), ExitCause::Crashed),
            (killed, Some(text_response("x")), ExitCause::Crashed),
            (status(0), Some(text_response(" \n")), ExitCause::EmptyTurn),
            (status(0), Some(text_response("x")), ExitCause::Finished),
        ] {
            let Finish::Exited { cause: found, reason: why } =
                finish_after_exit(&end, last.as_ref(), b"one\nlast words\n\n")
            else {
                panic!("submitted")
            };
            assert_eq!(found, cause, "{why}");
            assert_eq!(why.ends_with(": last words"), cause != ExitCause::EmptyTurn, "{why}");
        }
    }
}
