//! Counts tokens locally with the o200k encoding, for checks before a request and for estimates.
//! Estimates are marked as such, because the endpoint's own count is authoritative.

use proctor_types::{Message, ModelResponse};

use crate::{
    codec::{Part, Request, neutral::Tool},
    fences::text_after_reasoning,
};

/// Tokens that the chat format adds around each message, as OpenAI counts them.
const MESSAGE_OVERHEAD: u64 = 4;
/// Approximate tokens of a screenshot. Vendors count images by size.
const IMAGE_TOKENS: u64 = 1600;
const RESPONSE_OVERHEAD: u64 = 3;

/// Loads the tokenizer's tables off the async threads. Loading takes about 0.2 s of CPU time. Later
/// counts are fast.
pub async fn load_tables() {
    // Ignore a panic, because it would occur again at the first count.
    let _ = tokio::task::spawn_blocking(|| count("")).await;
}

/// Maximum number of bytes of a string to tokenize. The rest is extrapolated, because counting a
/// megabyte of a single repeated letter takes seconds and a broken endpoint may send 64 MB.
const MAX_COUNTED_BYTES: usize = 1 << 20;

/// Returns the number of tokens in a string. Counts about 15 MB/s once the tables are loaded.
pub fn count(text: &str) -> u64 {
    let head = &text[..text.floor_char_boundary(MAX_COUNTED_BYTES)];
    let counted = proctor_tokens::count(head) as u64;
    match head.len() == text.len() {
        true => counted,
        false => counted * text.len() as u64 / head.len() as u64,
    }
}

/// Allowance for tokens that an endpoint adds to a request (a chat template, a prompt for tool
/// use).
const REQUEST_OVERHEAD: u64 = 1024;

/// Returns an upper bound on the input tokens of a request body, for any tokenizer: a token has at
/// least one byte. The bound is about four times the endpoint's count, which reduces parallelism
/// only near a limit. With a closer estimate, concurrent requests could exceed the limit together.
pub fn max_input_tokens(body_bytes: usize) -> u64 {
    body_bytes as u64 + REQUEST_OVERHEAD
}

/// Returns the number of input tokens in a message list, without tools.
pub fn count_messages(messages: &[Message]) -> u64 {
    messages.iter().map(count_message).sum::<u64>() + RESPONSE_OVERHEAD
}

fn count_message(message: &Message) -> u64 {
    let body = match message {
        Message::System { content } | Message::User { content } => count(content),
        Message::Tool { call_id, content } => count(call_id) + count(content),
        Message::Assistant { content, tool_calls, extra, .. } => {
            let calls: u64 = tool_calls
                .iter()
                .map(|call| count(&call.name) + count(&call.arguments) + MESSAGE_OVERHEAD)
                .sum();
            let vendor: u64 = extra.values().filter_map(|value| value.as_str()).map(count).sum();
            count(content) + calls + vendor
        }
    };
    body + MESSAGE_OVERHEAD
}

/// Returns the number of input tokens in a request of any format, including its tools.
pub(crate) fn count_request(request: &Request) -> u64 {
    let part = |part: &Part| match part {
        Part::Text(text) => count(text),
        Part::Reasoning(thought) => count(&thought.text),
        Part::Call(call) => count(&call.name) + count(&call.arguments) + MESSAGE_OVERHEAD,
        Part::Result { id, content, .. } => count(id) + count(content),
        Part::Image(_) => IMAGE_TOKENS,
        Part::Media(_) => 0,
    };
    let turns = request.turns.iter();
    let turns = turns.map(|turn| turn.parts.iter().map(part).sum::<u64>() + MESSAGE_OVERHEAD);
    turns.sum::<u64>() + count_tools(&request.tools) + RESPONSE_OVERHEAD
}

/// Returns the number of input tokens that every endpoint reads. This excludes the reasoning of
/// earlier turns, which many chat templates drop, and images, which vendors count differently.
pub(crate) fn count_visible(request: &Request) -> u64 {
    let part = |part: &Part| match part {
        Part::Text(text) => count(text_after_reasoning(text).unwrap_or(text)),
        Part::Reasoning(_) | Part::Image(_) | Part::Media(_) => 0,
        Part::Call(call) => count(&call.name) + count(&call.arguments),
        Part::Result { content, .. } => count(content),
    };
    let parts = request.turns.iter().flat_map(|turn| &turn.parts);
    parts.map(part).sum::<u64>() + count_tools(&request.tools)
}

/// Returns the number of input tokens in a request's tools.
pub(crate) fn count_tools(tools: &[Tool]) -> u64 {
    let tokens = tools.iter().map(|tool| {
        let text = count(&tool.name) + count(&tool.description);
        text + count(&tool.parameters.to_string()) + MESSAGE_OVERHEAD
    });
    tokens.sum()
}

/// Returns the number of output tokens in a response, including visible reasoning.
pub(crate) fn count_response(response: &ModelResponse) -> u64 {
    count_message(&response.to_message()) - MESSAGE_OVERHEAD
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
    fn count_extrapolates_very_long_texts() {
        let line = "é hello world\n";
        let text = line.repeat((3 << 20) / line.len());
        let (few, all) = (count(line) * (3 << 20) / line.len() as u64, count(&text));
        assert!(all.abs_diff(few) < few / 50, "{all} {few}");
    }

    #[test]
    fn count_messages_counts_every_part() {
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
