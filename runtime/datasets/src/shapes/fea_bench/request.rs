//! Builds the request and the statement in the form of the Standard dataset.

use serde::Serialize;
use serde_json::Value;

use super::{super::statement::render_statement, components::Component};
use crate::errors::RowError;

const STATEMENT_TEMPLATE: &str = include_str!("../../../../../prompts/fea-bench/statement.md.j2");
const REQUEST_TEMPLATE: &str = include_str!("../../../../../prompts/fea-bench/request.md.j2");

#[derive(Serialize)]
struct Request<'a> {
    title: &'a str,
    body: &'a str,
    comments: Vec<&'a str>,
}

impl Request<'_> {
    fn text(&self) -> Result<String, RowError> {
        let inner = render_statement(REQUEST_TEMPLATE, self)?;
        Ok(format!("<request>\n{}\n</request>", inner.trim()))
    }
}

/// Builds the request from the pull request of a medium row. Comments after the first commit are
/// left out, because they may discuss the solution.
pub(super) fn request_from_pull(info: &Value) -> Result<String, RowError> {
    let text = |name: &str| info.get(name).and_then(Value::as_str);
    let title = text("pr_title")
        .ok_or_else(|| RowError::invalid_field("problem_info.pr_title", "is missing"))?;
    // Like the benchmark, print a null body as Python does.
    let body = text("pr_body").unwrap_or("None");
    let comments = comments_before_first_commit(info, info.get("pr_timeline"));
    Request { title, body, comments }.text()
}

/// Builds the request from a commit's message.
pub(super) fn request_from_commit(title: &str, body: &str) -> Result<String, RowError> {
    Request { title, body, comments: Vec::new() }.text()
}

fn comments_before_first_commit<'a>(info: &'a Value, timeline: Option<&'a Value>) -> Vec<&'a str> {
    let first = info.get("first_commit_time");
    let is_before = |comment: &&Value| match (comment.get("time"), first) {
        (Some(Value::String(time)), Some(Value::String(first))) => time < first,
        (Some(time), Some(first)) => {
            time.as_f64().zip(first.as_f64()).is_some_and(|(time, first)| time < first)
        }
        _ => false,
    };
    let all = timeline.and_then(Value::as_array).into_iter().flatten();
    all.filter(is_before).filter_map(|comment| comment.get("comment")?.as_str()).collect()
}

/// Returns the issues of a medium row. Standard rows have them as hints.
pub(super) fn discussion(info: &Value) -> Option<String> {
    let issues = info.get("issues")?.as_object()?;
    let mut out = String::new();
    for issue in issues.values().filter(|issue| issue.as_object().is_some_and(|i| !i.is_empty())) {
        let text = |name: &str| issue.get(name).and_then(Value::as_str).unwrap_or_default().trim();
        out.push_str(&format!("{}\n{}\n----------", text("issue_title"), text("issue_body")));
        for comment in comments_before_first_commit(info, issue.get("issue_timeline")) {
            out.push('\n');
            out.push_str(comment.trim());
        }
        out.push_str("\n--------------------");
    }
    (!out.is_empty()).then(|| {
        format!(
            "Here is the discussion in the issues of the pull request.\n<issues>\n{out}\n</issues>"
        )
    })
}

#[derive(Serialize)]
struct TemplateVariables<'a> {
    request: String,
    files: Vec<File<'a>>,
}

#[derive(Serialize)]
struct File<'a> {
    file: &'a str,
    components: Vec<&'a Component>,
}

/// Builds the complete statement: the request, and the definitions to implement.
pub(super) fn build_complete_statement(
    request: String,
    components: &[Component],
) -> Result<String, RowError> {
    let mut files: Vec<File<'_>> = Vec::new();
    for component in components {
        match files.iter_mut().find(|file| file.file == component.file) {
            Some(file) => file.components.push(component),
            None => files.push(File { file: &component.file, components: vec![component] }),
        }
    }
    render_statement(STATEMENT_TEMPLATE, TemplateVariables { request, files })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn statement_matches_the_benchmarks_text_exactly() {
        let info = json!({
            "pr_title": "Add f", "pr_body": "It adds f.", "first_commit_time": 10.0,
            "pr_timeline": [{"time": 5.0, "comment": "early"}, {"time": 11.0, "comment": "the answer"}],
            "issues": {"7": {"issue_title": " T ", "issue_body": "B", "issue_timeline": []}, "8": {}},
        });
        let component = |name: &str, doc: &str| Component {
            file: "p/a.py".into(),
            kind: "function".into(),
            name: name.into(),
            signature: format!("def {name}():"),
            doc: doc.into(),
        };
        let all = [component("f", "Does f."), component("C.g", "")];
        let said = build_complete_statement(request_from_pull(&info).unwrap(), &all).unwrap();
        let expected = "This is a feature request which requires a new feature to add in the code repository.\n\
            <<NEW FEATURE REQUEST>>\n<request>\nAdd f\nIt adds f.\n----------\nearly\n</request>\n\n\n\
            There are several new functions or classes that need to be implemented, using the definitions below: \n\
            <<NEW DEFINITIONS>>\n\
            There are several new functions or classes that need to be implemented, using the definitions below: \n\
            <definitions>\n[start of new definitions in p/a.py]\n(definition of f:)\ndef f():\n\"\"\"Does f.\"\"\"\n\
            (definition of C.g:)\ndef C.g():\n[end of new definitions in p/a.py]\n\n</definitions>\n\n\n\
            Please note that in addition to the newly added components mentioned above, you also need to make other code changes to ensure that the new feature can be executed properly.\n<<END>>";
        assert_eq!(said, expected);
        let hints = discussion(&info).unwrap();
        assert!(
            hints.ends_with("<issues>\nT\nB\n----------\n--------------------\n</issues>"),
            "{hints}"
        );
    }
}
