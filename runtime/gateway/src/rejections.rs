//! What a rejection is about: `configs/rejections.toml`.

use proctor_types::{Fault, Layer, ShippedTable};
use serde::Deserialize;

/// Words by their subject.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Subjects {
    conversation: Vec<String>,
    tools: Vec<String>,
    stream: Vec<String>,
}

/// What a rejection speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Its length or its content.
    Conversation,
    Tools,
    Stream,
    Unknown,
}

impl Subjects {
    /// The lists that Proctor ships. They are compiled in and checked by a test.
    pub(crate) fn shipped() -> Result<&'static Self, Fault> {
        static SHIPPED: ShippedTable<Subjects> =
            ShippedTable::new("rejections.toml", include_str!("../../../configs/rejections.toml"));
        SHIPPED.get().map_err(|what| Fault::new(Layer::Model, what))
    }

    /// `tools`: the request offered some. `streamed`: it asked for a stream.
    pub(crate) fn of(&self, status: u16, body: &str, tools: bool, streamed: bool) -> Subject {
        let body = body.to_lowercase();
        let speaks = |words: &[String]| words.iter().any(|word| body.contains(word.as_str()));
        match status {
            413 => Subject::Conversation,
            _ if speaks(&self.conversation) => Subject::Conversation,
            _ if streamed && speaks(&self.stream) => Subject::Stream,
            _ if tools && speaks(&self.tools) => Subject::Tools,
            _ => Subject::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Subject, Subjects};

    #[test]
    fn vendors_speak_of_the_same_in_other_words() {
        let subjects = Subjects::shipped().expect("sound lists");
        for (body, subject) in [
            ("This model's maximum context length is 8192 tokens", Subject::Conversation),
            ("prompt is too long: 210000 tokens > 200000 maximum", Subject::Conversation),
            ("{\"code\":\"context_length_exceeded\"}", Subject::Conversation),
            ("The response was filtered: content_filter", Subject::Conversation),
            ("registry.ollama.ai/library/phi does not support tools", Subject::Tools),
            ("\"auto\" tool choice requires --enable-auto-tool-choice", Subject::Tools),
            ("deepseek-reasoner does not support Function Calling", Subject::Tools),
            ("stream_options is not allowed", Subject::Stream),
            ("unknown field `reasoning_content`", Subject::Unknown),
        ] {
            assert_eq!(subjects.of(400, body, true, true), subject, "{body}");
        }
        assert_eq!(subjects.of(413, "", false, false), Subject::Conversation);
        assert_eq!(subjects.of(400, "no tools here", false, false), Subject::Unknown);
    }
}
