//! Converts a candidate to rows in FEA-Bench's dataset formats: medium, Standard and Oracle.

use std::{collections::BTreeMap, sync::LazyLock};

use proctor_datasets::fea_bench::{PullTexts, Repository, build_texts};
use proctor_patch::Patch;
use proctor_types::{Fault, FaultLayer};
use regex::Regex;
use serde_json::{Map, Value, json};

use super::{
    candidate::{Candidate, Component},
    dump::{Comment, DumpedPull, parse_timestamp},
};

/// Matches a closing keyword and the number of the issue that the change closes.
const CLOSING_PATTERN: &str = r"(?i)\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?\s+#(\d+)";

/// A task's rows in the three formats.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DatasetRows {
    pub(super) medium: Value,
    pub(super) standard: Value,
    pub(super) oracle: Value,
    pub(super) texts: PullTexts,
}

impl DatasetRows {
    /// Sets the test ids in each row. The ids are only known after the tests were run.
    pub(super) fn set_test_ids(&mut self, fail_to_pass: &[String], pass_to_pass: &[String]) {
        for form in [&mut self.medium, &mut self.standard, &mut self.oracle] {
            form["FAIL_TO_PASS"] = json!(fail_to_pass);
            form["PASS_TO_PASS"] = json!(pass_to_pass);
        }
    }
}

/// Returns a candidate's rows, without test ids.
///
/// # Errors
/// Fails if the benchmark's text cannot be rendered because a template is invalid.
pub(super) fn build_rows(
    candidate: &Candidate,
    id: &str,
    repo: &str,
    clone: &Repository,
    dumped_pull: Option<&DumpedPull>,
) -> Result<DatasetRows, Fault> {
    let info = problem_info(candidate, dumped_pull);
    let pull_texts = build_texts(&info, &candidate.components())
        .map_err(|what| Fault::new(FaultLayer::Environment, format!("{id}: {what}")))?;
    let components = components_by_file(&candidate.components);
    let readmes: Vec<(String, Value)> = clone
        .top_level_names(&candidate.base)
        .unwrap_or_default()
        .into_iter()
        .filter(|name| name.to_lowercase().starts_with("readme"))
        .filter_map(|name| Some((name.clone(), clone.read_file(&candidate.base, &name)?.into())))
        .collect();
    let files: Vec<(String, Value)> = Patch::parse(candidate.patch.as_bytes())
        .paths()
        .iter()
        .map(|name| String::from_utf8_lossy(name.as_bytes()).into_owned())
        // The value is `null` for a file that the change creates.
        .map(|name| (name.clone(), clone.read_file(&candidate.base, &name).into()))
        .collect();
    let url = dumped_pull.and_then(|row| row.html_url.clone());
    let shared = json!({
        "instance_id": id,
        "pull_number": candidate.number,
        "repo": repo,
        "version": null,
        "base_commit": candidate.base,
        "environment_setup_commit": candidate.base,
        "created_at": candidate.created_at,
        "FAIL_TO_PASS": [],
        "PASS_TO_PASS": [],
        "patch": candidate.patch,
        "test_patch": candidate.test_patch,
        "non_py_patch": candidate.non_py_patch,
    });
    let medium = merge_objects(
        &shared,
        json!({
            "url": url.unwrap_or_else(|| {
                format!("https://github.com/{}/pull/{}", repo, candidate.number)
            }),
            "issue_numbers": closed_issue_numbers(candidate, dumped_pull),
            "problem_info": info,
            "readmes": readmes.iter().cloned().collect::<Map<_, _>>(),
            "files": files.iter().cloned().collect::<Map<_, _>>(),
            "new_components": components.iter().cloned().collect::<Map<_, _>>(),
        }),
    );
    let discussion = pull_texts.discussion.clone().unwrap_or_default();
    let standard = merge_objects(
        &shared,
        json!({
            "new_components": to_object_list(&components, "components"),
            "problem_statement": pull_texts.statement,
            "hints_text": discussion,
        }),
    );
    let oracle = merge_objects(
        &standard,
        json!({
            "pull_request_text": pull_texts.request,
            "issue_text": discussion,
            "readmes": to_object_list(&readmes, "content"),
            "files": to_object_list(&files, "content"),
        }),
    );
    Ok(DatasetRows { medium, standard, oracle, texts: pull_texts })
}

fn merge_objects(base: &Value, extra_fields: Value) -> Value {
    let mut out = base.clone();
    if let (Value::Object(out), Value::Object(more)) = (&mut out, extra_fields) {
        out.extend(more);
    }
    out
}

/// Converts a map to a list of objects, because table columns must have fixed keys.
fn to_object_list(entries: &[(String, Value)], value_key: &str) -> Value {
    entries.iter().map(|(file, value)| json!({"file": file, value_key: value})).collect()
}

fn components_by_file(components: &[Component]) -> Vec<(String, Value)> {
    let mut out: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for Component { component, lines } in components {
        out.entry(&component.file).or_default().push(json!({
            "type": component.kind,
            "name": component.name,
            "lines": lines,
            "signature": component.signature,
            "doc": component.doc,
        }));
    }
    out.into_iter().map(|(file, list)| (file.to_owned(), list.into())).collect()
}

fn problem_info(candidate: &Candidate, dumped_pull: Option<&DumpedPull>) -> Value {
    let timeline = |comments: &[Comment]| -> Value {
        let said = comments.iter().filter_map(|comment| {
            let body = comment.body.as_deref()?;
            // Skip comments without a time, because they may discuss the solution.
            Some(json!({"time": parse_timestamp(&comment.created_at)?, "comment": body}))
        });
        said.collect()
    };
    let issues = dumped_pull.into_iter().flat_map(|row| &row.issues).map(|issue| {
        let entry = json!({
            "issue_title": issue.title,
            "issue_body": issue.body,
            "issue_timeline": timeline(&issue.comments),
        });
        (issue.number.to_string(), entry)
    });
    json!({
        "first_commit_time": candidate.first_written,
        "pr_title": candidate.title,
        "pr_body": candidate.body,
        "pr_timeline": timeline(dumped_pull.map_or(&[], |row| &row.comments)),
        "issues": issues.collect::<Map<_, _>>(),
    })
}

/// Returns the numbers of the issues that the candidate closes, sorted.
fn closed_issue_numbers(candidate: &Candidate, dumped_pull: Option<&DumpedPull>) -> Vec<String> {
    static PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(CLOSING_PATTERN).ok());
    let text = format!("{}\n{}", candidate.title, candidate.body);
    let named = PATTERN.iter().flat_map(|pattern| pattern.captures_iter(&text));
    let named = named.filter_map(|found| Some(found.get(1)?.as_str().to_owned()));
    let given =
        dumped_pull.into_iter().flat_map(|row| &row.issues).map(|issue| issue.number.to_string());
    let mut out: Vec<String> = named.chain(given).collect();
    out.sort();
    out.dedup();
    out
}

#[cfg(test)]
mod tests {
    use super::{super::dump::Issue, *};

    #[test]
    fn rows_include_closed_issues_and_only_earlier_comments() {
        let candidate = Candidate {
            title: "Add x".into(),
            body: "Fixes #12, closes: #3. See #4.".into(),
            first_written: 100,
            ..Candidate::default()
        };
        let comment =
            |at: &str, body: &str| Comment { body: Some(body.into()), created_at: at.into() };
        let row = DumpedPull {
            comments: vec![
                comment("1970-01-01T00:01:00Z", "early"),
                comment("1970-01-01T00:02:00Z", "the answer"),
                comment("", "whenever"),
            ],
            issues: vec![Issue { number: 12, title: "Want x".into(), ..Issue::default() }],
            ..DumpedPull::default()
        };
        assert_eq!(closed_issue_numbers(&candidate, Some(&row)), ["12", "3"]);
        let info = problem_info(&candidate, Some(&row));
        let said = build_texts(&info, &[]).unwrap();
        assert!(said.request.contains("early"), "{}", said.request);
        assert!(!said.request.contains("answer") && !said.request.contains("whenever"));
        assert!(said.discussion.unwrap().contains("Want x"));
    }
}
