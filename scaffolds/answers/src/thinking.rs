//! Removes reasoning, which is not part of the answer and may contain drafts of edits and commands.
//!
//! Servers without a reasoning parser leave the reasoning in the text, in tags or in the channels
//! of Harmony. In this format of gpt-oss, a response is `<|channel|>analysis<|message|>...<|end|>`,
//! followed by `<|start|>assistant<|channel|>final<|message|>...<|return|>`.

use proctor_types::{split_reasoning, strip_opening_reasoning_tag};

/// The parts of a Harmony message: what may precede its channel, the channel, and the text's start
/// and end.
const HARMONY_ROLE: &str = "<|start|>assistant";
const HARMONY_CHANNEL: &str = "<|channel|>";
const HARMONY_MESSAGE: &str = "<|message|>";
const HARMONY_ENDS: [&str; 3] = ["<|return|>", "<|end|>", "<|call|>"];

/// Returns the part of a response after the model's reasoning, or the whole response if it has no
/// reasoning. Returns `None` if the reasoning does not end.
pub fn answer_after_thinking(response: &str) -> Option<&str> {
    let text = response.trim_start();
    if is_harmony(text) {
        return Some(harmony_answer(text));
    }
    match split_reasoning(text) {
        Some((_, answer)) => Some(answer),
        None if strip_opening_reasoning_tag(text).is_some() => None,
        None => Some(response),
    }
}

/// Returns the answer without the reasoning before it. If the reasoning does not end, returns an
/// empty answer, because the response was cut off during reasoning.
pub(crate) fn strip_thinking(answer: &str) -> &str {
    answer_after_thinking(answer).unwrap_or_default()
}

/// Whether the text begins with the header of a Harmony message.
fn is_harmony(text: &str) -> bool {
    let text = text.strip_prefix(HARMONY_ROLE).unwrap_or(text);
    let Some(rest) = text.strip_prefix(HARMONY_CHANNEL) else { return false };
    let Some((header, _)) = rest.split_once(HARMONY_MESSAGE) else { return false };
    let channels = ["analysis", "commentary", "final"];
    !header.contains('\n') && channels.iter().any(|channel| header.starts_with(*channel))
}

/// Returns the text of the final channel. If there is none, returns the text of the commentary,
/// which is also meant for the user, or else an empty string.
fn harmony_answer(text: &str) -> &str {
    let channels = ["final", "commentary"];
    let answer = channels.iter().find_map(|channel| last_harmony_message(text, channel));
    let mut answer = answer.unwrap_or_default();
    let end = answer.trim_end();
    if let Some(rest) = HARMONY_ENDS.iter().find_map(|token| end.strip_suffix(*token)) {
        answer = rest;
    }
    answer
}

/// Returns the last message of a channel, preferring one whose code fences are balanced. An unbalanced
/// fence means that the marker was inside a code block and did not start a real message.
fn last_harmony_message<'a>(text: &'a str, channel: &str) -> Option<&'a str> {
    let marker = format!("{HARMONY_CHANNEL}{channel}");
    let messages = text.rmatch_indices(marker.as_str()).filter_map(|(at, marker)| {
        let before = text[..at].trim_end();
        let follows_message = before.is_empty()
            || before.ends_with(HARMONY_ROLE)
            || HARMONY_ENDS.iter().any(|token| before.ends_with(*token));
        let (header, message) = text[at + marker.len()..].split_once(HARMONY_MESSAGE)?;
        // A message with a recipient is a call.
        let is_text = !header.contains('\n') && !header.contains("to=");
        (follows_message && is_text).then_some(message)
    });
    let messages: Vec<&str> = messages.collect();
    let whole = messages.iter().find(|message| has_whole_blocks(message));
    whole.or(messages.first()).copied()
}

/// Returns whether the text has an even number of code fences. If the text begins inside a code
/// block, it has an odd number.
fn has_whole_blocks(text: &str) -> bool {
    text.lines().filter(|line| line.starts_with("```")).count().is_multiple_of(2)
}

#[cfg(test)]
mod tests {
    use super::{answer_after_thinking, strip_thinking};

    #[test]
    fn strip_thinking_removes_only_a_leading_block() {
        assert_eq!(strip_thinking("\n<think>draft</think>\nanswer"), "\nanswer");
        assert_eq!(strip_thinking("<think>cut"), "");
        assert_eq!(strip_thinking("a <think>b</think>"), "a <think>b</think>");
        assert_eq!(answer_after_thinking("<think>cut"), None);
        // MiniMax M3.
        assert_eq!(strip_thinking("<mm:think>draft</mm:think>answer"), "answer");
    }

    #[test]
    fn end_tag_without_a_start_tag_ends_the_reasoning() {
        for (response, answer) in [
            ("draft\n</think>\n\nanswer", "\n\nanswer"),
            ("I don't need more.</think>Done.", "Done."),
            ("```bash\nls\n```</think>```bash\npwd\n```", "```bash\npwd\n```"),
            ("```bash\nls\n</think>\n\n```bash\npwd\n```", "\n\n```bash\npwd\n```"),
            ("The tag is `</think>`.\n</think>\nanswer", "\nanswer"),
            ("</think>\n\nanswer", "\n\nanswer"),
            ("draft[/THINK]answer", "answer"),
        ] {
            assert_eq!(answer_after_thinking(response), Some(answer), "{response}");
        }
    }

    #[test]
    fn end_tag_within_an_answer_is_kept() {
        for response in [
            "```bash\ngrep -n '</think>' parser.py\n```",
            "```bash\ncat > x.txt <<'E'\nthought\n</think>\nE\n```",
            "```bash\nls\n```\nThis keeps `</think>` in the text.",
            "```bash\nls\n```\nAll text up to </think> is dropped.",
            "```bash\nls\n```\n</think>\n",
            "x = \"thought</think>answer\"\n",
        ] {
            assert_eq!(answer_after_thinking(response), Some(response), "{response}");
        }
    }

    #[test]
    fn thought_channel_of_gemma_is_reasoning() {
        let draft = "Later\n```bash\nproctor-submit\n```\nNot yet.";
        let block = "I look.\n```bash\nls\n```";
        for response in [
            format!("<|channel>thought\n{draft}\n<channel|>{block}"),
            format!("{draft}\n<channel|>{block}"),
            format!("<|channel>thought\n<channel|>{block}"),
        ] {
            assert_eq!(answer_after_thinking(&response), Some(block), "{response}");
        }
        assert_eq!(answer_after_thinking("<|channel>thought\ncut"), None);
        for response in [
            "```bash\ngrep -n '<channel|>' template.jinja\n```",
            "The template writes `<|channel>thought` and `<channel|>` around drafts.",
            "All text up to <channel|> is dropped.",
        ] {
            assert_eq!(answer_after_thinking(response), Some(response), "{response}");
        }
    }

    #[test]
    fn harmony_answer_is_the_final_channel() {
        let draft = "<|channel|>analysis<|message|>Later\n```bash\nproctor-submit\n```\nNot yet.";
        let end = "<|end|><|start|>assistant";
        let block = "I look.\n```bash\nls\n```";
        for (response, answer) in [
            (format!("{draft}{end}<|channel|>final<|message|>{block}<|return|>"), block),
            (format!("{draft}{end}<|channel|>final <|constrain|>text<|message|>{block}"), block),
            (format!("<|start|>assistant{draft}{end}<|channel|>final<|message|>{block}"), block),
            (format!("{draft}{end}<|channel|>commentary<|message|>{block}<|end|>"), block),
            ("<|channel|>final<|message|>Done.<|return|>\n".to_owned(), "Done."),
            (format!("{draft}<|end|>"), ""),
            (format!("{draft} `<|channel|>final<|message|>` comes next."), ""),
            (format!("{draft}{end}<|channel|>commentary to=functions.f<|message|>{{}}"), ""),
        ] {
            assert_eq!(answer_after_thinking(&response), Some(answer), "{response}");
        }
        // The model's own command contains the markers.
        let command = format!("```bash\necho '{end}<|channel|>final<|message|>x'\n```");
        let response = format!("{draft}{end}<|channel|>final<|message|>{command}");
        assert_eq!(answer_after_thinking(&response), Some(command.as_str()));
    }

    #[test]
    fn mention_of_harmony_markers_is_kept() {
        for response in [
            "The server writes `<|channel|>final<|message|>` before the answer.",
            "<|channel|> starts the header, and <|message|> the text.",
            "```bash\ngrep -n '<|start|>assistant<|channel|>final<|message|>' log.txt\n```",
        ] {
            assert_eq!(answer_after_thinking(response), Some(response), "{response}");
        }
    }
}
