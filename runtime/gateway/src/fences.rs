//! Detects streams that lost the opening or closing fence of a code block in the text.
//!
//! Some proxies drop the first or the last chunk of a streamed text. If that chunk is a fence, a
//! scaffold that runs commands in code blocks finds no command. The gateway repeats the request
//! without streaming. If a fence is also missing from the second response, the model itself omitted
//! it.

use proctor_types::closing_reasoning_tags;

use crate::{
    TrialGateway,
    attempt_failure::{AttemptFailure, FailureKind},
    codec::neutral::{CollectedResponse, StopReason},
    outgoing_request::OutgoingRequest,
};

/// The header of the answer in Harmony, which ends the reasoning before it.
const HARMONY_ANSWER_HEADER: &str = "<|channel|>final<|message|>";

/// The fence that is missing from code blocks in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LostFence {
    /// The text ends with a fence that closes a block, but none is open.
    Opening,
    /// The last block is not closed.
    Closing,
}

impl LostFence {
    fn describe(self) -> &'static str {
        match self {
            Self::Opening => "the text closes a code block that it did not open",
            Self::Closing => "the text does not close its last code block",
        }
    }
}

impl TrialGateway {
    /// Returns why a complete response must be requested again. Returns `None` if no fence is
    /// missing from its code blocks, or if the model itself omits fences. `text` is the text of the
    /// response.
    pub(crate) fn find_lost_fence(
        &self,
        request: &OutgoingRequest,
        response: &CollectedResponse,
        text: &str,
    ) -> Option<AttemptFailure> {
        let (model, halts) = (&self.route().model, &self.route().halts);
        if response.reported_stop != Some(StopReason::End) || halts.omits_fences(model) {
            return None;
        }
        let lost = lost_answer_fence(text)?;
        if !request.is_streaming {
            halts.note_omitted_fence(model);
            return None;
        }
        // A model may forget to close its last block. If the endpoint supports only streams, the
        // gateway cannot tell whether the stream lost the fence.
        let is_unclear = lost == LostFence::Closing && halts.is_stream_only(model);
        (!is_unclear).then(|| AttemptFailure::new(FailureKind::Corrupted, lost.describe()))
    }
}

/// Returns the answer after the reasoning, if a server left reasoning in the text.
pub(crate) fn text_after_reasoning(text: &str) -> Option<&str> {
    let tag = closing_reasoning_tags(text).pop();
    let harmony = || text.rsplit_once(HARMONY_ANSWER_HEADER).map(|(_, answer)| answer);
    tag.map(|tag| tag.after).or_else(harmony)
}

/// Whether a fence is missing from the code blocks of a response's text.
pub(crate) fn has_incomplete_block(text: &str) -> bool {
    lost_answer_fence(text).is_some()
}

/// Returns the fence that is missing from the code blocks of a response's text, if any.
fn lost_answer_fence(text: &str) -> Option<LostFence> {
    let lost = lost_fence(text)?;
    // Skip reasoning that a server left in the text, because drafts in it may contain incomplete
    // code blocks.
    if let Some(answer) = text_after_reasoning(text) {
        lost_fence(answer)?;
    }
    Some(lost)
}

/// Returns the fence that is missing from the text's code blocks, if any.
fn lost_fence(text: &str) -> Option<LostFence> {
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some((ticks, info)) = parse_opening_fence(line) else { continue };
        let (mut is_closed, mut is_blank) = (false, true);
        for line in lines.by_ref() {
            is_closed = is_closing_fence(line, ticks);
            if is_closed {
                break;
            }
            is_blank &= line.trim().is_empty();
        }
        if !is_closed {
            let is_end = info.is_empty() && is_blank;
            return Some(if is_end { LostFence::Opening } else { LostFence::Closing });
        }
    }
    None
}

/// Returns the text without its code blocks and inline code.
pub(crate) fn without_code(text: &str) -> String {
    let mut kept = String::new();
    for line in without_code_blocks(text).lines() {
        // Every second part of the line is between backticks.
        line.split('`').step_by(2).for_each(|part| kept.push_str(part));
        kept.push('\n');
    }
    kept
}

/// Returns the text without its code blocks.
pub(crate) fn without_code_blocks(text: &str) -> String {
    let (mut kept, mut lines) = (String::new(), text.lines());
    while let Some(line) = lines.next() {
        if let Some((ticks, _)) = parse_opening_fence(line.trim_start()) {
            for line in lines.by_ref() {
                if is_closing_fence(line.trim_start(), ticks) {
                    break;
                }
            }
            continue;
        }
        kept.push_str(line);
        kept.push('\n');
    }
    kept
}

/// If the line opens a fenced block, returns the number of backticks and the info string. A line
/// with further backticks is an inline code span.
fn parse_opening_fence(line: &str) -> Option<(usize, &str)> {
    let ticks = line.bytes().take_while(|byte| *byte == b'`').count();
    let info = line.get(ticks..)?.trim();
    (ticks >= 3 && !info.contains('`')).then_some((ticks, info))
}

fn is_closing_fence(line: &str, ticks: usize) -> bool {
    let line = line.trim_end();
    line.len() >= ticks && line.bytes().all(|byte| byte == b'`')
}

#[cfg(test)]
mod tests {
    use super::{LostFence, has_incomplete_block, lost_fence, without_code};

    #[test]
    fn lost_fence_finds_blocks_without_a_start_or_an_end() {
        for text in ["ls\n```", "ls\n```\n", "```", "```text\na\n```\nls\n```"] {
            assert_eq!(lost_fence(text), Some(LostFence::Opening), "{text}");
        }
        for text in ["```bash\nls", "```bash\nls\n``", "ls\n```\nThat lists the files."] {
            assert_eq!(lost_fence(text), Some(LostFence::Closing), "{text}");
        }
    }

    #[test]
    fn incomplete_blocks_in_reasoning_are_ignored() {
        for end in ["</think>", "</mm:think>", "<channel|>", "<|channel|>final<|message|>"] {
            let draft = format!("draft\n````bash\nls\n{end}");
            assert!(!has_incomplete_block(&format!("{draft}```bash\nls\n```")), "{end}");
            assert!(has_incomplete_block(&format!("{draft}```bash\nls\n")), "{end}");
        }
    }

    #[test]
    fn without_code_removes_blocks_and_inline_code() {
        for (text, rest) in [
            ("a `b` c", "a  c\n"),
            ("a\n```bash\nb\n```\nc", "a\nc\n"),
            ("- a\n  ```\n  b\n  ```\n", "- a\n"),
            ("a\n```\nb", "a\n"),
        ] {
            assert_eq!(without_code(text), rest, "{text}");
        }
    }

    #[test]
    fn lost_fence_accepts_complete_blocks() {
        for text in [
            "",
            "Done.",
            "Look.\n```bash\nls\n```\nDone.",
            "```bash\na\n```\n```bash\nb\n```",
            "```text\n```bash\n```\n```bash\nls\n```",
            "````bash\ncat > r.md <<'E'\n```\ncode\nE\n````",
            "A fence is written as ``` in Markdown.",
            "```` ```bash ````",
        ] {
            assert_eq!(lost_fence(text), None, "{text}");
        }
    }
}
