//! Reads the titles and descriptions of pull requests that were exported through a forge's API.

use std::{collections::HashMap, fs, path::Path};

use serde::Deserialize;

/// A line of the file: a pull request as returned by `GET /repos/OWNER/NAME/pulls`, with `comments`
/// and `issues` added.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(super) struct DumpedPull {
    pub(super) number: u64,
    #[serde(default)]
    pub(super) title: String,
    #[serde(default)]
    pub(super) body: Option<String>,
    #[serde(default)]
    pub(super) created_at: Option<String>,
    #[serde(default)]
    pub(super) html_url: Option<String>,
    #[serde(default)]
    pub(super) labels: Vec<Label>,
    /// Comments on the pull request. In the API's own responses, `comments` is a number, which is
    /// ignored.
    #[serde(default, deserialize_with = "deserialize_comments")]
    pub(super) comments: Vec<Comment>,
    /// The issues that the pull request mentions.
    #[serde(default)]
    pub(super) issues: Vec<Issue>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Label {
    #[serde(default)]
    pub(super) name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Comment {
    #[serde(default)]
    pub(super) body: Option<String>,
    #[serde(default)]
    pub(super) created_at: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Issue {
    pub(super) number: u64,
    #[serde(default)]
    pub(super) title: String,
    #[serde(default)]
    pub(super) body: Option<String>,
    #[serde(default, deserialize_with = "deserialize_comments")]
    pub(super) comments: Vec<Comment>,
}

fn deserialize_comments<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Comment>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum CommentsField {
        List(Vec<Comment>),
        Other(serde::de::IgnoredAny),
    }
    match CommentsField::deserialize(deserializer)? {
        CommentsField::List(list) => Ok(list),
        CommentsField::Other(_) => Ok(Vec::new()),
    }
}

/// Reads a file's pull requests, by number.
///
/// # Errors
/// Fails if the file cannot be read or a line is invalid. The message names the line.
pub(super) fn read_dump(file: &Path) -> Result<HashMap<u64, DumpedPull>, String> {
    let path = file.display();
    let text = fs::read_to_string(file).map_err(|error| format!("{path}: {error}"))?;
    let mut out = HashMap::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let row: DumpedPull = serde_json::from_str(line)
            .map_err(|error| format!("{path}:{}: {error}", number + 1))?;
        out.insert(row.number, row);
    }
    Ok(out)
}

/// Parses `2024-05-01T12:00:00Z`, the API's only format, into seconds since 1970.
pub(super) fn parse_timestamp(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers = |text: &str, by: char| -> Option<[u64; 3]> {
        let list: Vec<u64> = text.split(by).map(|it| it.parse().ok()).collect::<Option<_>>()?;
        list.try_into().ok()
    };
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time.split('.').next()?, ':')?;
    // Start years in March, so that the leap day is the last day of the year.
    let (year, month) =
        if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day;
    let days = days.checked_sub(719_469)?;
    Some(days * 86_400 + hour * 3_600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_ignores_comment_count_and_locates_invalid_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pulls.jsonl");
        let rows = r#"{"number": 7, "title": "Add x", "body": null, "comments": 3, "user": {"login": "a"}}
            {"number": 8, "title": "y", "labels": [{"name": "bug", "id": 1}], "comments":
            "#;
        fs::write(&file, rows.lines().next().unwrap()).unwrap();
        assert_eq!(read_dump(&file).unwrap()[&7].title, "Add x");
        fs::write(&file, rows).unwrap();
        assert!(
            read_dump(&file).unwrap_err().contains("pulls.jsonl:2: "),
            "{:?}",
            read_dump(&file)
        );
    }

    #[test]
    fn parse_timestamp_accepts_api_timestamps() {
        assert_eq!(parse_timestamp("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(parse_timestamp("2024-02-29T12:30:05Z"), Some(1_709_209_805));
        assert_eq!(parse_timestamp("2000-03-01T00:00:00.5Z"), Some(951_868_800));
        assert_eq!(parse_timestamp("yesterday"), None);
    }
}
