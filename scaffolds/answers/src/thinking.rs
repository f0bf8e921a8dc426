//! Removes reasoning text, which is not part of the answer and may contain drafts of edits.

/// The answer after a leading `<think>` block. An unclosed block leaves nothing: the answer was cut
/// inside it.
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
    fn only_a_block_at_the_beginning_is_left_out() {
        assert_eq!(without("\n<think>draft</think>\nanswer"), "\nanswer");
        assert_eq!(without("<think>cut"), "");
        assert_eq!(without("a <think>b</think>"), "a <think>b</think>");
    }
}
