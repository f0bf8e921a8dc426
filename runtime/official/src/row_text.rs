//! The row details to which a policy may refer.

use std::borrow::Cow;

use proctor_types::{DetailField, Details};
use serde::Deserialize;
use serde_json::Value;

/// A key in `benchmark.details` to which a policy may refer. The set is closed, so a policy with a
/// mistyped key fails to load. Otherwise, the typo would show only during grading, where no row
/// would have the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum RowText {
    #[serde(rename = "eval_script")]
    EvalScript,
    /// A key in the row's `install_config`, which may be JSON text.
    #[serde(rename = "install_config.log_parser")]
    InstallConfigParser,
    #[serde(rename = "log_parser")]
    LogParser,
    #[serde(rename = "log_parser_code")]
    LogParserCode,
    #[serde(rename = "parser")]
    Parser,
}

impl RowText {
    /// Returns the key in the row.
    pub fn key(self) -> &'static str {
        match self {
            Self::EvalScript => "eval_script",
            Self::InstallConfigParser => "install_config.log_parser",
            Self::LogParser => "log_parser",
            Self::LogParserCode => "log_parser_code",
            Self::Parser => "parser",
        }
    }

    /// Returns the value in the row, whatever its type. `None` for `null` and for empty text.
    pub fn value_in(self, details: &Details) -> Option<Value> {
        let kept = match self {
            Self::EvalScript => Cow::Borrowed(&details.eval_script),
            Self::InstallConfigParser => {
                Cow::Owned(details.install_config.get()?.settings()?.log_parser)
            }
            Self::LogParser => Cow::Borrowed(&details.log_parser),
            Self::LogParserCode => Cow::Borrowed(&details.log_parser_code),
            Self::Parser => Cow::Borrowed(&details.parser),
        };
        match kept.as_ref() {
            DetailField::Absent | DetailField::Raw(Value::Null) => None,
            DetailField::Typed(text) => (!text.is_empty()).then(|| text.as_str().into()),
            DetailField::Raw(other) => Some(other.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn row_text_keys_round_trip() {
        for key in
            ["eval_script", "install_config.log_parser", "log_parser", "log_parser_code", "parser"]
        {
            let read: RowText = serde_json::from_value(key.into()).unwrap();
            assert_eq!(read.key(), key);
        }
        assert!(serde_json::from_value::<RowText>("log_parsers".into()).is_err());
    }

    #[test]
    fn value_in_distinguishes_other_types_from_missing_values() {
        let said = |details: Value| {
            let details: Details = serde_json::from_value(details).unwrap();
            RowText::LogParser.value_in(&details)
        };
        assert_eq!(said(json!({"log_parser": "a"})), Some("a".into()));
        assert_eq!(said(json!({"log_parser": 5})), Some(5.into()));
        for nothing in [json!({}), json!({"log_parser": ""}), json!({"log_parser": null})] {
            assert_eq!(said(nothing), None);
        }
    }
}
