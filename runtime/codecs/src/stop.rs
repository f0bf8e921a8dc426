//! Classifies the stop reasons of all endpoints, as listed in `configs/tables/stop-words.toml`.

use proctor_types::ShippedTable;
use serde::Deserialize;

use super::neutral::StopReason;

/// Stop reasons in lower case, with `_` instead of hyphens and spaces.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StopWords {
    end: Vec<String>,
    calls: Vec<String>,
    length: Vec<String>,
    window: Vec<String>,
    paused: Vec<String>,
    filter: Vec<String>,
    broken: Vec<String>,
    broken_parts: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopClass {
    End,
    Calls,
    Length,
    ContextWindow,
    /// The endpoint continues the model's turn with the next request.
    Paused,
    Filter,
    /// The endpoint did not finish the response.
    Aborted,
    Unknown,
}

impl StopClass {
    pub(super) fn classify(word: &str) -> Self {
        static WORDS: ShippedTable<StopWords> = ShippedTable::new(
            "tables/stop-words.toml",
            include_str!("../../../configs/tables/stop-words.toml"),
        );
        let Ok(words) = WORDS.get() else { return Self::Unknown };
        let plain: String = word
            .trim()
            .chars()
            .map(|c| if c == '-' || c == ' ' { '_' } else { c.to_ascii_lowercase() })
            .collect();
        let holds = |list: &[String]| list.contains(&plain);
        let classes = [
            (&words.end, Self::End),
            (&words.calls, Self::Calls),
            (&words.length, Self::Length),
            (&words.window, Self::ContextWindow),
            (&words.paused, Self::Paused),
            (&words.filter, Self::Filter),
            (&words.broken, Self::Aborted),
        ];
        let known = classes.into_iter().find(|(list, _)| holds(list)).map(|(_, class)| class);
        known.unwrap_or_else(|| {
            match words.broken_parts.iter().any(|part| plain.contains(part.as_str())) {
                true => Self::Aborted,
                false => Self::Unknown,
            }
        })
    }

    /// Returns an error if the endpoint did not finish the response. `field` is the field that
    /// contains the stop reason.
    pub(super) fn reject_aborted(field: &str, word: Option<&str>) -> Result<(), String> {
        match word.filter(|word| Self::classify(word) == Self::Aborted) {
            Some(word) => Err(format!("the endpoint aborted the response: {field} {word:?}")),
            None => Ok(()),
        }
    }

    pub(super) fn to_stop_reason(self, word: &str) -> StopReason {
        match self {
            Self::End => StopReason::End,
            Self::Calls => StopReason::Calls,
            Self::Length => StopReason::Length,
            Self::ContextWindow => StopReason::ContextWindow,
            Self::Filter => StopReason::Filter,
            Self::Paused | Self::Aborted | Self::Unknown => StopReason::Other(word.to_owned()),
        }
    }
}

impl StopReason {
    /// Returns the endpoint's word for the reason if `configs/tables/stop-words.toml` does not list
    /// it. The model did not end such a response.
    pub fn unlisted_word(&self) -> Option<&str> {
        match self {
            Self::Other(word) if StopClass::classify(word) == StopClass::Unknown => {
                Some(word.as_str())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::StopClass;

    #[test]
    fn classify_recognizes_the_stop_words_of_all_endpoints() {
        for (word, class) in [
            ("stop", StopClass::End),
            ("eos", StopClass::End),
            ("STOP", StopClass::End),
            ("function_call", StopClass::Calls),
            ("model_context_window_exceeded", StopClass::ContextWindow),
            ("sensitive", StopClass::Filter),
            ("PROHIBITED_CONTENT", StopClass::Filter),
            ("network-error", StopClass::Aborted),
            ("MALFORMED_FUNCTION_CALL", StopClass::Aborted),
            ("upstream_failure", StopClass::Aborted),
            ("request_timeout", StopClass::Aborted),
            ("model_length", StopClass::Length),
            ("COMPLETE", StopClass::End),
            ("ERROR_TOXIC", StopClass::Aborted),
            ("pause_turn", StopClass::Paused),
            ("repetition_truncation", StopClass::Aborted),
            ("soliloquy", StopClass::Unknown),
        ] {
            assert_eq!(StopClass::classify(word), class, "{word}");
        }
    }

    #[test]
    fn unlisted_word_is_returned_only_for_words_outside_of_the_lists() {
        for word in ["other", "unknown", "OTHER", "blockReason OTHER"] {
            let stop = StopClass::classify(word).to_stop_reason(word);
            assert_eq!(stop.unlisted_word(), Some(word));
        }
        for word in ["stop", "tool_use", "max_tokens", "pause_turn", "refusal", "safety"] {
            let stop = StopClass::classify(word).to_stop_reason(word);
            assert_eq!(stop.unlisted_word(), None, "{word}");
        }
    }
}
