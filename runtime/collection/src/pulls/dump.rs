//! Texts of pull requests from the forge's API.

use std::{collections::HashMap, fs, path::Path};

use serde::Deserialize;

/// A row: a pull request from `GET /repos/OWNER/NAME/pulls`, with two additional lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Row {
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
    /// Comments of the pull request. The API's own field with this name is a count and is ignored.
    #[serde(default, deserialize_with = "list")]
    pub(super) comments: Vec<Comment>,
    /// The issues that it mentions.
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
    #[serde(default, deserialize_with = "list")]
    pub(super) comments: Vec<Comment>,
}

fn list<'de, D: serde::Deserializer<'de>>(given: D) -> Result<Vec<Comment>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        List(Vec<Comment>),
        Other(serde::de::IgnoredAny),
    }
    match Given::deserialize(given)? {
        Given::List(list) => Ok(list),
        Given::Other(_) => Ok(Vec::new()),
    }
}

/// The rows of a file by number.
///
/// # Errors
/// Which line is invalid, and why.
pub(super) fn read(file: &Path) -> Result<HashMap<u64, Row>, String> {
    let place = file.display();
    let text = fs::read_to_string(file).map_err(|error| format!("{place}: {error}"))?;
    let mut out = HashMap::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let row: Row = serde_json::from_str(line)
            .map_err(|error| format!("{place}:{}: {error}", number + 1))?;
        out.insert(row.number, row);
    }
    Ok(out)
}

/// Seconds since 1970 for `2024-05-01T12:00:00Z`, the API's only format.
pub(super) fn seconds(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers = |text: &str, by: char| -> Option<[u64; 3]> {
        let list: Vec<u64> = text.split(by).map(|it| it.parse().ok()).collect::<Option<_>>()?;
        list.try_into().ok()
    };
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time.split('.').next()?, ':')?;
    // Years start in March, so that the leap day is the last one.
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
    fn a_row_of_the_api_is_read_and_a_count_of_comments_is_no_comment() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pulls.jsonl");
        let rows = r#"{"number": 7, "title": "Add x", "body": null, "comments": 3, "user": {"login": "a"}}
            {"number": 8, "title": "y", "labels": [{"name": "bug", "id": 1}], "comments":
            "#;
        fs::write(&file, rows.lines().next().unwrap()).unwrap();
        assert_eq!(read(&file).unwrap()[&7].title, "Add x");
        fs::write(&file, rows).unwrap();
        assert!(read(&file).unwrap_err().contains("pulls.jsonl:2: "), "{:?}", read(&file));
    }

    #[test]
    fn moments_are_seconds() {
        assert_eq!(seconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(seconds("2024-02-29T12:30:05Z"), Some(1_709_209_805));
        assert_eq!(seconds("2000-03-01T00:00:00.5Z"), Some(951_868_800));
        assert_eq!(seconds("yesterday"), None);
    }
}
