//! FEA-Bench: four forms of one instance. Whatever a row lacks is completed from what it has: the
//! pull request in the row, or a local clone of the repository.

mod clone;
mod components;
mod git;
mod request;

use std::collections::BTreeMap;

use proctor_types::Source;
use serde_json::Value;

use super::{build::Draft, fields::Fields};
use crate::{address::Options, bad::Complaint};

/// Brings a row to the form that says everything: statement, patch, test patch.
pub(super) fn complete(
    fields: &mut Fields<'_>,
    details: &mut BTreeMap<String, Value>,
    repo: &str,
    options: &Options,
) -> Result<(), Complaint> {
    let mut components = match fields.named("new_components") {
        Some(value) => components::of_row(value)?,
        None => Vec::new(),
    };
    let mut source = "row";
    if !fields.holds("patch") {
        let Some(repos) = &options.repos else {
            let what = "is missing: rows of the hub have ids only; complete them from clones \
                        `owner__name` below a folder with `#repos=FOLDER`";
            return Err(Complaint::at("patch", what));
        };
        let base = details.get("base_commit").and_then(Value::as_str).unwrap_or_default();
        let number = details.get("pull_number").map(plain).unwrap_or_default();
        let found = clone::complete(repos, repo, base, &number)?;
        source = found.source;
        fields.put("patch", found.patch);
        fields.put("test_patch", found.test_patch);
        details.insert("non_py_patch".into(), found.non_py_patch.into());
        details.insert("clone".into(), found.folder.into());
        if !fields.holds("problem_info") && !fields.holds("pull_request_text") {
            fields.put("pull_request_text", request::of_commit(&found.title, &found.body)?);
        }
        if components.is_empty() {
            components = found.components;
        }
    }
    if !fields.holds("problem_statement") {
        let request = match fields.named("pull_request_text") {
            Some(Value::String(text)) => text,
            _ => {
                let info = fields.named("problem_info").ok_or_else(|| {
                    Complaint::at("problem_statement", "is missing, and there is no pull request")
                })?;
                if let Some(hints) = request::discussion(&info) {
                    fields.put("hints_text", hints);
                }
                request::of_pull(&info)?
            }
        };
        fields.put("problem_statement", request::statement(request, &components)?);
    }
    let count = |kind: &str| components.iter().filter(|component| component.kind == kind).count();
    if !components.is_empty() {
        details.insert("functions_added".into(), count("function").into());
        details.insert("classes_added".into(), count("class").into());
    }
    details.insert("problem_source".into(), source.into());
    Ok(())
}

/// A task that runs on the host's own programs brings its source along.
pub(super) fn finish(draft: &mut Draft<'_>) -> Result<(), Complaint> {
    let clone = draft.details.remove("clone");
    if draft.task.environment.base.is_none() {
        return Ok(());
    }
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let commit = text(draft.details.get("base_commit"))
        .ok_or_else(|| Complaint::at("base_commit", "is missing"))?;
    let git = text(clone.as_ref()).unwrap_or_else(|| {
        format!("https://github.com/{}.git", draft.task.repo.as_deref().unwrap_or_default())
    });
    draft.task.source = Some(Source::Git { git, commit });
    Ok(())
}

/// Pull numbers are numbers here and text there.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
