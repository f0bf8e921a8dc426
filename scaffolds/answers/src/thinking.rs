//! Removes reasoning, which is not part of the answer and may contain drafts of edits.

/// Returns the answer without a leading `<think>` block. If the block is not closed, returns an
/// empty answer, because the response was cut off during reasoning.
pub(crate) fn strip_thinking(answer: &str) -> &str {
    match answer.trim_start().strip_prefix("<think>") {
        None => answer,
        Some(rest) => rest.split_once("</think>").map_or("", |(_, after)| after),
    }
}

#[cfg(test)]
mod tests {
    use super::strip_thinking;

    #[test]
    fn strip_thinking_removes_only_a_leading_block() {
        assert_eq!(strip_thinking("\n<think>draft</think>\nanswer"), "\nanswer");
        assert_eq!(strip_thinking("<think>cut"), "");
        assert_eq!(strip_thinking("a <think>b</think>"), "a <think>b</think>");
    }
}
