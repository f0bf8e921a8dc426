//! Maps the stop reasons of all endpoints to classes: `configs/stop-words.toml`.

use proctor_types::ShippedTable;
use serde::Deserialize;

use super::neutral::Stop;

/// Stop reasons in lower case, with `_` instead of hyphens and spaces.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Words {
    end: Vec<String>,
    calls: Vec<String>,
    length: Vec<String>,
    window: Vec<String>,
    filter: Vec<String>,
    broken: Vec<String>,
    broken_parts: Vec<String>,
}

/// The class of a stop reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopWord {
    End,
    Calls,
    Length,
    Window,
    Filter,
    /// The endpoint did not finish the response.
    Broken,
    Unknown,
}

impl StopWord {
    pub(super) fn of(word: &str) -> Self {
        static WORDS: ShippedTable<Words> =
            ShippedTable::new("stop-words.toml", include_str!("../../../configs/stop-words.toml"));
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
            (&words.window, Self::Window),
            (&words.filter, Self::Filter),
            (&words.broken, Self::Broken),
        ];
        let known = classes.into_iter().find(|(list, _)| holds(list)).map(|(_, class)| class);
        known.unwrap_or_else(|| {
            match words.broken_parts.iter().any(|part| plain.contains(part.as_str())) {
                true => Self::Broken,
                false => Self::Unknown,
            }
        })
    }

    /// Returns an error if the endpoint did not finish the response. `field` is the field that
    /// contains the stop reason.
    pub(super) fn reject_aborted(field: &str, word: Option<&str>) -> Result<(), String> {
        match word.filter(|word| Self::of(word) == Self::Broken) {
            Some(word) => Err(format!("the endpoint aborted the response: {field} {word:?}")),
            None => Ok(()),
        }
    }

    pub(super) fn stop(self, word: &str) -> Stop {
        match self {
            Self::End => Stop::End,
            Self::Calls => Stop::Calls,
            Self::Length => Stop::Length,
            Self::Window => Stop::Window,
            Self::Filter => Stop::Filter,
            Self::Broken | Self::Unknown => Stop::Other(word.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::StopWord;

    #[test]
    fn of_classifies_the_words_of_all_endpoints() {
        for (word, class) in [
            ("stop", StopWord::End),
            ("eos", StopWord::End),
            ("STOP", StopWord::End),
            ("function_call", StopWord::Calls),
            ("model_context_window_exceeded", StopWord::Window),
            ("sensitive", StopWord::Filter),
            ("PROHIBITED_CONTENT", StopWord::Filter),
            ("network-error", StopWord::Broken),
            ("MALFORMED_FUNCTION_CALL", StopWord::Broken),
            ("upstream_failure", StopWord::Broken),
            ("request_timeout", StopWord::Broken),
            ("soliloquy", StopWord::Unknown),
        ] {
            assert_eq!(StopWord::of(word), class, "{word}");
        }
    }
}
