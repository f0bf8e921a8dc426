//! Chunks that contain only text, as most chunks of a stream do. They are read without building a
//! JSON tree, which takes most of the time of reading a chunk.

use std::borrow::Cow;

use serde::Deserialize;

/// The text of a chunk's only choice, borrowed from the chunk unless it contains escapes.
#[derive(Debug)]
pub(super) struct PlainText<'a> {
    pub text: Cow<'a, str>,
    pub has_role: bool,
}

/// The only members that a choice with plain text may have. Any other member may contain a call,
/// reasoning, usage, an error or a vendor's field.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Choice<'a> {
    #[serde(default, rename = "index")]
    _index: u64,
    #[serde(borrow)]
    delta: Delta<'a>,
    /// Must be `null` or absent.
    #[serde(default, rename = "finish_reason")]
    _finish_reason: (),
    /// Must be `null` or absent.
    #[serde(default, rename = "logprobs")]
    _logprobs: (),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Delta<'a> {
    #[serde(default)]
    role: Option<&'a str>,
    #[serde(borrow)]
    content: Cow<'a, str>,
}

impl<'a> PlainText<'a> {
    /// Reads `choices`. Returns `None` if they contain anything but text.
    pub(super) fn read(choices: &'a str) -> Option<Self> {
        let [Choice { delta, .. }] = serde_json::from_str::<[Choice<'a>; 1]>(choices).ok()?;
        Some(Self { text: delta.content, has_role: delta.role.is_some() })
    }
}

#[cfg(test)]
mod tests {
    use super::PlainText;

    #[test]
    fn read_accepts_only_text() {
        let read =
            |choices: &str| PlainText::read(choices).map(|it| (it.text.into_owned(), it.has_role));
        let text = |text: &str, has_role: bool| Some((text.to_owned(), has_role));
        for (choices, wanted) in [
            (r#"[{"index":0,"delta":{"content":"a\n"},"finish_reason":null}]"#, text("a\n", false)),
            (r#"[{"delta":{"role":"assistant","content":""},"logprobs":null}]"#, text("", true)),
            (r#"[{"delta":{"content":"a"},"finish_reason":"stop"}]"#, None),
            (r#"[{"delta":{"content":"a","reasoning":"b"}}]"#, None),
            (r#"[{"delta":{"content":"a","tool_calls":[]}}]"#, None),
            (r#"[{"delta":{"content":null}}]"#, None),
            (r#"[{"delta":{"content":"a"},"usage":{}}]"#, None),
            (r#"[{"delta":{"content":"a"}},{"delta":{"content":"b"}}]"#, None),
            (r#"[{"delta":{"content":"\ud83d"}}]"#, None),
            ("[]", None),
            ("null", None),
        ] {
            assert_eq!(read(choices), wanted, "{choices}");
        }
    }
}
