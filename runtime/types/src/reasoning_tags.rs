//! The tags around reasoning that a server without a reasoning parser leaves in the text.

/// The tags before and after reasoning. Many chat templates end the prompt with the first tag, so
/// such a server may return only the second one.
pub const REASONING_TAGS: [(&str, &str); 5] = [
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("◁think▷", "◁/think▷"),
    // Gemma 4.
    ("<|channel>thought", "<channel|>"),
];
