//! The `[arms.settings]` of `single-shot`. Each key is a factor.

use proctor_answers::MatchMode;
use proctor_scaffold_api::SettingError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The format of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AnswerFormat {
    Natural,
    Patch,
    Probe,
}

/// How much the prompt reveals about the new definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Hints {
    Detailed,
    Brief,
}

/// Which files to show in addition to those that are always shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Retrieval {
    Oracle,
    Bm25,
    None,
}

/// The settings, including defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Settings {
    pub(super) hints: Hints,
    pub(super) retrieval: Retrieval,
    /// The maximum number of tokens in the prompt; `None` means no limit.
    pub(super) context_tokens: Option<u64>,
    pub(super) format: AnswerFormat,
    pub(super) matching: MatchMode,
}

/// Keys and their allowed values.
const ALLOWED_VALUES: [(&str, &[&str]); 4] = [
    ("hints", &["detailed", "brief"]),
    ("retrieval", &["oracle", "bm25", "none"]),
    ("format", &["natural", "patch", "probe"]),
    ("matching", &["exact", "reference"]),
];
const CONTEXT_TOKENS_KEY: &str = "context_tokens";
const MAX_CONTEXT_TOKENS: u64 = 1_000_000_000;

/// Merges the settings with the defaults. Fails with an error about a key.
pub(super) fn resolve_settings(
    arm_settings: &Map<String, Value>,
    bm25_tokens: u64,
) -> Result<Map<String, Value>, SettingError> {
    let wrong = |key: &str, what: String, hint: String| SettingError {
        key: key.to_owned(),
        problem: what,
        hint,
    };
    for (key, value) in arm_settings {
        if key == CONTEXT_TOKENS_KEY {
            if !value.as_u64().is_some_and(|tokens| (1..=MAX_CONTEXT_TOKENS).contains(&tokens)) {
                let what = format!("must be a whole number from 1 to {MAX_CONTEXT_TOKENS}");
                return Err(wrong(key, what, "the unit is tokens, for example 27000".into()));
            }
            continue;
        }
        let Some((_, words)) = ALLOWED_VALUES.iter().find(|(known, _)| known == key) else {
            let known: Vec<&str> =
                ALLOWED_VALUES.iter().map(|(key, _)| *key).chain([CONTEXT_TOKENS_KEY]).collect();
            let near = known.iter().min_by_key(|known| strsim::levenshtein(known, key));
            let hint = match near.filter(|near| strsim::levenshtein(near, key) <= near.len() / 2) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known: {}", known.join(", ")),
            };
            return Err(wrong(key, "the scaffold `single-shot` has no such setting".into(), hint));
        };
        if !value.as_str().is_some_and(|word| words.contains(&word)) {
            let near = value
                .as_str()
                .and_then(|word| words.iter().find(|known| strsim::levenshtein(known, word) <= 2));
            let hint = match near {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => "docs/reference/single-shot.md describes the values".into(),
            };
            return Err(wrong(key, format!("must be one of {}", words.join(", ")), hint));
        }
    }
    let mut settings = Map::new();
    for (key, words) in ALLOWED_VALUES {
        settings
            .insert(key.into(), arm_settings.get(key).cloned().unwrap_or_else(|| words[0].into()));
    }
    // Reject settings about files for a probe, which shows no files. A setting without effect must
    // not make two arms different.
    if settings["format"] == "probe" {
        for (key, plain) in [("retrieval", "none"), ("hints", "brief"), ("matching", "exact")] {
            if arm_settings.get(key).is_some_and(|value| value != plain) {
                let what = "has no effect: a probe consists of only the request".to_owned();
                return Err(wrong(key, what, "remove the key".into()));
            }
            settings.insert(key.into(), plain.into());
        }
    }
    if settings["format"] == "patch" && arm_settings.contains_key("matching") {
        let what =
            "has no effect: patches are applied with the benchmark's own commands".to_owned();
        return Err(wrong("matching", what, "remove the key".into()));
    }
    let tokens = match (arm_settings.get(CONTEXT_TOKENS_KEY), settings["retrieval"].as_str()) {
        (Some(_), Some("none")) => {
            let what = "has no effect: nothing is retrieved".to_owned();
            return Err(wrong(CONTEXT_TOKENS_KEY, what, "remove the key".into()));
        }
        (Some(tokens), _) => tokens.clone(),
        (None, Some("bm25")) => bm25_tokens.into(),
        (None, _) => Value::Null,
    };
    settings.insert(CONTEXT_TOKENS_KEY.into(), tokens);
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resolve_json(arm_settings: Value) -> Result<Map<String, Value>, SettingError> {
        resolve_settings(arm_settings.as_object().unwrap(), 27_000)
    }

    #[test]
    fn single_shot_defaults_match_the_papers_first_setting() {
        let settings = resolve_json(json!({})).unwrap();
        assert_eq!(
            Value::from(settings),
            json!({"hints": "detailed", "retrieval": "oracle", "format": "natural", "matching": "exact", "context_tokens": null})
        );
        assert_eq!(resolve_json(json!({"retrieval": "bm25"})).unwrap()["context_tokens"], 27_000);
        assert_eq!(resolve_json(json!({"format": "probe"})).unwrap()["retrieval"], "none");
    }

    #[test]
    fn single_shot_setting_errors_suggest_the_nearest_name() {
        for (given, key, says) in [
            (json!({"hint": "brief"}), "hint", "did you mean `hints`?"),
            (json!({"zzz": 1}), "zzz", "known: hints"),
            (json!({"retrieval": "bm52"}), "retrieval", "did you mean \"bm25\"?"),
            (json!({"format": 3}), "format", "docs/reference/single-shot.md"),
            (json!({"context_tokens": 0}), "context_tokens", "27000"),
            (json!({"retrieval": "none", "context_tokens": 9}), "context_tokens", "remove"),
            (json!({"format": "probe", "retrieval": "oracle"}), "retrieval", "remove"),
            (json!({"format": "patch", "matching": "exact"}), "matching", "remove"),
        ] {
            let wrong = resolve_json(given.clone()).unwrap_err();
            assert_eq!(wrong.key, key, "{given}");
            assert!(wrong.hint.contains(says), "{given}: {}", wrong.hint);
        }
    }
}
