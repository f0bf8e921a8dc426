//! Reads a verifier's rewards.

use std::{collections::BTreeMap, fmt};

use serde_json::Value;

/// Maximum size of a reward file in bytes.
pub const REWARD_LIMIT: u64 = 1 << 20;

/// The error if the verifier wrote no valid rewards. This is different from a reward of zero,
/// because the verifier did not rate the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RewardError {
    /// The problem, including the file's name.
    pub message: String,
}

impl fmt::Display for RewardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RewardError {}

/// Reads `reward.json` or, if it is missing, `reward.txt`, as Harbor does.
///
/// ```
/// use proctor_harbor::read_rewards;
///
/// assert_eq!(read_rewards(None, Some(b"1\r\n")).unwrap()["reward"], 1.0);
/// assert_eq!(read_rewards(Some(br#"{"a": true, "b": 0.5}"#), Some(b"0")).unwrap()["a"], 1.0);
/// assert!(read_rewards(None, Some(b"nan")).is_err());
/// ```
///
/// # Errors
/// Fails if neither file exists, or if the content is neither a finite number nor a flat object of
/// finite numbers.
pub fn read_rewards(
    json: Option<&[u8]>,
    txt: Option<&[u8]>,
) -> Result<BTreeMap<String, f64>, RewardError> {
    let (name, rewards) = match (json, txt) {
        (Some(json), _) => ("reward.json", parse_json_rewards(json)),
        (None, Some(txt)) => ("reward.txt", parse_text_reward(txt)),
        (None, None) => {
            let message = "the verifier did not write reward.json or reward.txt".to_owned();
            return Err(RewardError { message });
        }
    };
    rewards.map_err(|why| RewardError { message: format!("{name} {why}") })
}

fn parse_text_reward(bytes: &[u8]) -> Result<BTreeMap<String, f64>, String> {
    let text = decode_utf8(bytes)?.trim();
    if text.is_empty() {
        return Err("is empty".into());
    }
    let value: f64 =
        text.parse().map_err(|_| format!("contains {}, not a number", quote_excerpt(text)))?;
    if !value.is_finite() {
        return Err(format!("contains {}, not a finite number", quote_excerpt(text)));
    }
    Ok(BTreeMap::from([("reward".to_owned(), value)]))
}

fn parse_json_rewards(bytes: &[u8]) -> Result<BTreeMap<String, f64>, String> {
    let text = decode_utf8(bytes)?;
    if text.trim().is_empty() {
        return Err("is empty".into());
    }
    let value: Value = serde_json::from_str(text)
        .map_err(|error| format!("is not JSON with finite numbers: {error}"))?;
    let Value::Object(table) = value else {
        return Err("is not an object of named rewards".into());
    };
    if table.is_empty() {
        return Err("contains no rewards".into());
    }
    let rewards = table.into_iter().map(|(name, value)| {
        let number = match &value {
            Value::Bool(truth) => Some(f64::from(u8::from(*truth))),
            Value::Number(number) => number.as_f64(),
            _ => None,
        };
        match number.filter(|number| number.is_finite()) {
            Some(number) => Ok((name, number)),
            None => Err(format!(
                "has the value {name} = {}, not a finite number",
                quote_excerpt(&value.to_string())
            )),
        }
    });
    rewards.collect()
}

fn decode_utf8(bytes: &[u8]) -> Result<&str, String> {
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return Err("starts with a byte order mark, which Harbor rejects".into());
    }
    std::str::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())
}

/// Returns a short excerpt of the content, in quotes.
fn quote_excerpt(text: &str) -> String {
    let head: String = text.chars().take(40).collect();
    format!("{head:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rewards_are_finite_numbers_and_booleans() {
        for (text, reward) in
            [("1", 1.0), (" 0.25\n", 0.25), ("-3", -3.0), ("1e2\r\n", 100.0), ("+.5", 0.5)]
        {
            assert_eq!(
                read_rewards(None, Some(text.as_bytes())).unwrap()["reward"],
                reward,
                "{text:?}"
            );
        }
        let several = read_rewards(Some(br#"{"a": 1, "b": false, "c": -0.5}"#), None).unwrap();
        assert_eq!((several["a"], several["b"], several["c"]), (1.0, 0.0, -0.5));
        let first = read_rewards(Some(br#"{"reward": 0}"#), Some(b"1")).unwrap();
        assert_eq!(first["reward"], 0.0, "reward.json takes precedence");
    }

    #[test]
    fn invalid_rewards_are_errors_instead_of_zero() {
        for (text, why) in [
            ("", "is empty"),
            ("   \n", "is empty"),
            ("nan", "not a finite number"),
            ("-inf", "not a finite number"),
            ("infinity", "not a finite number"),
            ("1e400", "not a finite number"),
            ("passed", "not a number"),
            ("1 1", "not a number"),
            ("\u{feff}1", "byte order mark"),
        ] {
            let error = read_rewards(None, Some(text.as_bytes())).unwrap_err().to_string();
            assert!(error.starts_with("reward.txt ") && error.contains(why), "{text:?}: {error}");
        }
        for (text, why) in [
            ("", "is empty"),
            ("1", "not an object"),
            ("{}", "contains no rewards"),
            (r#"{"reward": NaN}"#, "not JSON"),
            (r#"{"reward": 1e400}"#, "number"),
            (r#"{"reward": "1"}"#, "not a finite number"),
            (r#"{"reward": null}"#, "not a finite number"),
            (r#"{"reward": {"a": 1}}"#, "not a finite number"),
            (r#"{"reward": [1]}"#, "not a finite number"),
        ] {
            let error = read_rewards(Some(text.as_bytes()), Some(b"1")).unwrap_err().to_string();
            assert!(error.starts_with("reward.json ") && error.contains(why), "{text:?}: {error}");
        }
        assert!(read_rewards(Some(b"\xff"), None).unwrap_err().to_string().contains("UTF-8"));
        assert!(
            read_rewards(None, None)
                .unwrap_err()
                .to_string()
                .contains("did not write reward.json or reward.txt")
        );
    }
}
