//! Detects streams that lost a fence of the text's code blocks.
//!
//! Some proxies drop the first or the last piece of a streamed text. If the piece is a fence, a
//! scaffold that runs fenced commands finds none. The gateway repeats the request without streaming.
//! If the second response lacks a fence too, the model wrote it that way.

use crate::{
    TrialGateway,
    attempt_failure::{AttemptFailure, FailureKind},
    codec::neutral::{CollectedResponse, StopReason},
    outgoing_request::OutgoingRequest,
};

/// The ends of reasoning that a server left in the text.
const THOUGHT_ENDS: [&str; 2] = ["</think>", "<|channel|>final<|message|>"];

/// A fence that the code blocks of a text lack.
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
    /// Returns why a complete response must be requested again, or `None` if its code blocks have
    /// all their fences or the model itself omits one. `text` is the text of the response.
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
        let lost = lost_fence(text)?;
        // Drafts in reasoning that a server left in the text may lack fences.
        let answer = THOUGHT_ENDS.iter().find_map(|end| text.rsplit_once(*end));
        if let Some((_, answer)) = answer {
            lost_fence(answer)?;
        }
        if !request.is_streaming {
            halts.note_omitted_fence(model);
            return None;
        }
        // A model may forget the end of its block. If the endpoint has only streams, nothing shows
        // whether the stream lost it.
        let is_unclear = lost == LostFence::Closing && halts.is_stream_only(model);
        (!is_unclear).then(|| AttemptFailure::new(FailureKind::Corrupted, lost.describe()))
    }
}

/// Returns the fence that the code blocks of a text lack, if any.
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
    use super::{LostFence, lost_fence};

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
