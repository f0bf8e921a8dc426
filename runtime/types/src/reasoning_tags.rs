//! The tags around reasoning that a server without a reasoning parser leaves in the text.
//!
//! ```text
//! opening = open name close         ; <think>  [THINK]  ◁think▷  <|thinking|>  <mm:think>
//! closing = open "/" name close     ; </think> [/THINK] ◁/think▷ <|/thinking|> </mm:think>
//! name    = [ prefix ] word         ; the prefix ends with one of : _ -
//! ```
//!
//! Many chat templates end the prompt with the opening tag, so such a server may return only the
//! closing one.

/// The brackets of tags. Each is the text before the name and the text after it.
const BRACKETS: [(&str, &str); 5] =
    [("<|", "|>"), ("<", ">"), ("[", "]"), ("◁", "▷"), ("<｜", "｜>")];

/// The words for reasoning, in any case.
const WORDS: [&str; 5] = ["think", "thinking", "thought", "thoughts", "reasoning"];

/// Characters that separate a vendor's prefix from the word.
const SEPARATORS: [char; 3] = [':', '_', '-'];

/// Pairs of tags of another form.
const PAIRS: [(&str, &str); 4] = [
    // Gemma 4.
    ("<|channel>thought", "<channel|>"),
    // Command A.
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    // OpenThinker and Sky-T1.
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    // MedGemma.
    ("<unused94>thought", "<unused95>"),
];

/// No tag has a longer name.
const MAX_NAME_LENGTH: usize = 32;

/// A tag that ends reasoning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosingReasoningTag<'a> {
    /// The text before the tag.
    pub before: &'a str,
    /// The text after the tag.
    pub after: &'a str,
    /// The tag that begins the reasoning.
    opening: String,
}

/// If the text begins with a tag that begins reasoning, returns the text after the tag, and the tag
/// that ends the reasoning.
pub fn strip_opening_reasoning_tag(text: &str) -> Option<(&str, String)> {
    // Pairs come first, because some of their tags also have the common form.
    let mut pairs = PAIRS.iter();
    let pair = pairs
        .find_map(|(opening, closing)| Some((text.strip_prefix(*opening)?, (*closing).to_owned())));
    pair.or_else(|| {
        BRACKETS.iter().find_map(|(open, close)| {
            let (name, after) = read_tag_name(text.strip_prefix(*open)?, close)?;
            Some((after, format!("{open}/{name}{close}")))
        })
    })
}

/// Returns the tags in the text that end reasoning, in order.
pub fn closing_reasoning_tags(text: &str) -> Vec<ClosingReasoningTag<'_>> {
    let mut found = Vec::new();
    for (opening, closing) in PAIRS {
        for (at, tag) in text.match_indices(closing) {
            let (before, after) = (&text[..at], &text[at + tag.len()..]);
            found.push(ClosingReasoningTag { before, after, opening: opening.to_owned() });
        }
    }
    for (open, close) in BRACKETS {
        for (at, slash) in text.match_indices(&format!("{open}/")) {
            let Some((name, after)) = read_tag_name(&text[at + slash.len()..], close) else {
                continue;
            };
            let opening = format!("{open}{name}{close}");
            found.push(ClosingReasoningTag { before: &text[..at], after, opening });
        }
    }
    found.sort_by_key(|tag| tag.before.len());
    found
}

/// Splits a string into the model's reasoning and the answer after it. Returns `None` if the text
/// has no reasoning, or if the reasoning does not end.
pub fn split_reasoning(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    match strip_opening_reasoning_tag(text) {
        Some((rest, closing)) => rest.split_once(closing.as_str()),
        None => {
            let mut tags = closing_reasoning_tags(text).into_iter();
            tags.find(ClosingReasoningTag::ends_reasoning).map(|tag| (tag.before, tag.after))
        }
    }
}

impl ClosingReasoningTag<'_> {
    /// Whether the tag ends reasoning whose opening tag is in the prompt. Ignores a tag that the
    /// model mentions or writes to a file, and a tag after the answer, which some templates leave
    /// there.
    fn ends_reasoning(&self) -> bool {
        !self.before.contains(self.opening.as_str())
            && !self.is_mentioned()
            && !self.after.trim().is_empty()
            && has_whole_blocks(self.after)
    }

    /// Whether the tag is part of a sentence or a quotation.
    fn is_mentioned(&self) -> bool {
        // A line that begins with backticks may be a fence.
        let line = self.before.rsplit('\n').next().unwrap_or_default().trim_start_matches('`');
        let opens = |quote: char| line.matches(quote).count() % 2 == 1;
        let follows_word = line.ends_with(' ') && !line.trim().is_empty();
        follows_word || opens('"') || opens('`') || self.after.starts_with(['\'', '"'])
    }
}

/// Whether the text has an even number of code fences. If a tag is inside a code block, the text
/// after the tag has an odd number.
fn has_whole_blocks(text: &str) -> bool {
    text.lines().filter(|line| line.starts_with("```")).count().is_multiple_of(2)
}

/// If the text begins with the name of a reasoning tag, returns the name and the text after the
/// tag.
fn read_tag_name<'a>(text: &'a str, close: &str) -> Option<(&'a str, &'a str)> {
    let is_inner = |one: &char| one.is_ascii_alphanumeric() || SEPARATORS.contains(one);
    let length = text.chars().take(MAX_NAME_LENGTH).take_while(is_inner).count();
    // All these characters are ASCII.
    let (name, rest) = text.split_at(length);
    let after = rest.strip_prefix(close)?;
    let word = name.rsplit(SEPARATORS).next()?;
    WORDS.iter().any(|one| one.eq_ignore_ascii_case(word)).then_some((name, after))
}

#[cfg(test)]
mod tests {
    use super::{closing_reasoning_tags, split_reasoning, strip_opening_reasoning_tag};

    #[test]
    fn tags_of_every_vendor_are_recognized() {
        for (opening, closing) in [
            ("<think>", "</think>"),
            ("<thinking>", "</thinking>"),
            ("<Thought>", "</Thought>"),
            ("<mm:think>", "</mm:think>"),
            ("<seed:think>", "</seed:think>"),
            ("<longcat_think>", "</longcat_think>"),
            ("[THINK]", "[/THINK]"),
            ("◁think▷", "◁/think▷"),
            ("<|thinking|>", "<|/thinking|>"),
            ("<|START_THINKING|>", "<|END_THINKING|>"),
            ("<|channel>thought", "<channel|>"),
        ] {
            let text = format!("{opening}a{closing}b");
            let rest = format!("a{closing}b");
            let wanted = Some((rest.as_str(), closing.to_owned()));
            assert_eq!(strip_opening_reasoning_tag(&text), wanted, "{text}");
            assert_eq!(split_reasoning(&text), Some(("a", "b")), "{text}");
            assert_eq!(split_reasoning(&format!("a{closing}b")), Some(("a", "b")), "{text}");
        }
    }

    #[test]
    fn other_tags_are_text() {
        for text in [
            "<thinker>a</thinker>b",
            "<rethink>a</rethink>b",
            "<p>a</p>b",
            "[thing]a[/thing]b",
            "<think a</think",
            "<>a</>b",
        ] {
            assert_eq!(strip_opening_reasoning_tag(text), None, "{text}");
            assert_eq!(split_reasoning(text), None, "{text}");
        }
    }

    #[test]
    fn closing_tags_are_in_order() {
        let tags = closing_reasoning_tags("a[/THINK]b</think>c<channel|>d");
        let after: Vec<&str> = tags.iter().map(|tag| tag.after).collect();
        assert_eq!(after, ["b</think>c<channel|>d", "c<channel|>d", "d"]);
    }
}
