//! Removes reasoning text, which is not part of the answer and may contain drafts of edits.

/// Returns the answer after a leading `<think>` block. Returns an empty answer if the block is not
/// closed: the response was cut off while reasoning.
pub(crate) fn without(answer: &str) -> &str {
    match answer.trim_start().strip_prefix("<think>") {
        None => answer,
        Some(rest) => rest.split_once("</think>").map_or("", |(_, after)| after),
    }
}

#[cfg(test)]
mod tests {
    use super::without;

    #[test]
    fn without_removes_only_a_leading_think_block() {
        assert_eq!(without("\n<think>draft</think>\nanswer"), "\nanswer");
        assert_eq!(without("<think>cut"), "");
        assert_eq!(without("a <think>b</think>"), "a <think>b</think>");
    }
}
