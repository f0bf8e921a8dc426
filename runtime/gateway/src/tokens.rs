//! Local token counts (o200k), for checks before a request and for labeled estimates. The
//! endpoint's usage is authoritative.

use proctor_types::{Answer, Message};

use crate::codec::{Part, Request, neutral::Tool};

/// Tokens that the chat format adds around each message and before the response, as OpenAI counts.
const AROUND_MESSAGE: u64 = 4;
/// Vendors count images by size; a screenshot has about this many tokens.
const AN_IMAGE: u64 = 1600;
const AHEAD_OF_ANSWER: u64 = 3;

/// Loads the tables off the async threads, which takes about 0.2 s of CPU time. Later counts are
/// fast.
pub async fn load() {
    // A panic while loading the tables would also appear at the first count.
    let _ = tokio::task::spawn_blocking(|| count("")).await;
}

/// Maximum bytes of a text that are counted; the rest is extrapolated. A megabyte of one letter
/// takes seconds, and a broken endpoint may send 64.
const COUNTED: usize = 1 << 20;

/// Tokens of a text. About 15 MB/s once the tables are loaded.
pub fn count(text: &str) -> u64 {
    let head = &text[..text.floor_char_boundary(COUNTED)];
    let counted = proctor_tokens::count(head) as u64;
    match head.len() == text.len() {
        true => counted,
        false => counted * text.len() as u64 / head.len() as u64,
    }
}

/// Tokens that an endpoint may add to a request (a chat template, a prompt for tool use).
const AROUND_REQUEST: u64 = 1024;

/// An upper bound of the input tokens of a request body, for any tokenizer: a token has at least
/// one byte. It is about four times the endpoint's count, which costs parallelism only near a
/// limit. An estimate would let requests in flight exceed the limit together.
pub fn ceiling(body_bytes: usize) -> u64 {
    body_bytes as u64 + AROUND_REQUEST
}

/// Input tokens of a message list, without tools.
pub fn count_messages(messages: &[Message]) -> u64 {
    messages.iter().map(count_message).sum::<u64>() + AHEAD_OF_ANSWER
}

fn count_message(message: &Message) -> u64 {
    let body = match message {
        Message::System { content } | Message::User { content } => count(content),
        Message::Tool { call_id, content } => count(call_id) + count(content),
        Message::Assistant { content, tool_calls, extra, .. } => {
            let calls: u64 = tool_calls
                .iter()
                .map(|call| count(&call.name) + count(&call.arguments) + AROUND_MESSAGE)
                .sum();
            let vendor: u64 = extra.values().filter_map(|value| value.as_str()).map(count).sum();
            count(content) + calls + vendor
        }
    };
    body + AROUND_MESSAGE
}

/// Input tokens of a request of any format, including tools.
pub(crate) fn count_request(request: &Request) -> u64 {
    let part = |part: &Part| match part {
        Part::Text(text) => count(text),
        Part::Reasoning(thought) => count(&thought.text),
        Part::Call(call) => count(&call.name) + count(&call.arguments) + AROUND_MESSAGE,
        Part::Result { id, content, .. } => count(id) + count(content),
        Part::Image(_) => AN_IMAGE,
        Part::Media(_) => 0,
    };
    let turns = request.turns.iter();
    let turns = turns.map(|turn| turn.parts.iter().map(part).sum::<u64>() + AROUND_MESSAGE);
    turns.sum::<u64>() + count_tools(&request.tools) + AHEAD_OF_ANSWER
}

/// Input tokens of a request's tools.
pub(crate) fn count_tools(tools: &[Tool]) -> u64 {
    let tokens = tools.iter().map(|tool| {
        let text = count(&tool.name) + count(&tool.description);
        text + count(&tool.parameters.to_string()) + AROUND_MESSAGE
    });
    tokens.sum()
}

/// Output tokens of a response, including visible reasoning.
pub(crate) fn count_answer(answer: &Answer) -> u64 {
    count_message(&answer.message()) - AROUND_MESSAGE
}

#[cfg(test)]
mod tests {
    use proctor_types::Message;

    use super::{count, count_messages};

    #[test]
    fn counts_agree_with_the_published_encoding() {
        // Known values of o200k_base.
        assert_eq!(count(""), 0);
        assert_eq!(count("hello world"), 2);
        assert!(count("<|endoftext|>") > 1, "special tokens in text are plain text");
    }

    #[test]
    fn a_text_that_no_model_writes_is_counted_by_its_beginning() {
        let line = "é hello world\n";
        let text = line.repeat((3 << 20) / line.len());
        let (few, all) = (count(line) * (3 << 20) / line.len() as u64, count(&text));
        assert!(all.abs_diff(few) < few / 50, "{all} {few}");
    }

    #[test]
    fn every_part_of_a_message_counts() {
        let user = |text: &str| Message::User { content: text.into() };
        assert_eq!(count_messages(&[]), 3);
        assert_eq!(count_messages(&[user("hello world")]), 3 + 4 + 2);
        let extra = [("reasoning_content".to_owned(), "hello world".into())].into_iter().collect();
        let thought = Message::Assistant {
            content: String::new(),
            tool_calls: Vec::new(),
            extra,
            native: None,
        };
        assert_eq!(count_messages(&[thought]), 3 + 4 + 2);
    }
}
