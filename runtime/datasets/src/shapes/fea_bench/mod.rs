//! Converts FEA-Bench rows. The benchmark publishes its instances in four forms. Missing fields are
//! derived from the pull request in the row, or from a local clone of the repository.

mod clone;
mod components;
mod git;
mod request;
mod spans;

pub use clone::{SplitDiff, split_diff};
pub use components::{AddedComponent, added_components};
pub use git::{Commit, Repository};
pub use spans::{DefinitionSpan, new_spans};

pub(crate) use components::definitions;

use proctor_types::{DetailField, Details, NewComponent, Source};
use serde_json::Value;

use super::{draft::TaskDraft, fields::RowFields};
use crate::{address::AddressOptions, errors::RowError};

/// The fields that the Standard and Oracle datasets contain, derived from a row of the medium form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullTexts {
    /// `pull_request_text`.
    pub request: String,
    /// `issue_text` and `hints_text`.
    pub discussion: Option<String>,
    /// `problem_statement`.
    pub statement: String,
}

/// Builds the text fields from a medium row's `problem_info`, as the benchmark does.
///
/// # Errors
/// `problem_info` lacks a field. The error names that field.
pub fn build_texts(info: &Value, components: &[NewComponent]) -> Result<PullTexts, String> {
    let request = request::request_from_pull(info).map_err(|complaint| complaint.message)?;
    let statement =
        request::build_complete_statement(request.clone(), components).map_err(|it| it.message)?;
    Ok(PullTexts { request, discussion: request::discussion(info), statement })
}

/// Completes a row's statement, patch and test patch. Returns the clone if one was used.
pub(super) fn complete_row(
    fields: &mut RowFields<'_>,
    details: &mut Details,
    repo: &str,
    options: &AddressOptions,
) -> Result<Option<String>, RowError> {
    let mut clone = None;
    let mut components = match fields.take_by_name("new_components") {
        Some(value) => components::parse_components(value)?,
        None => Vec::new(),
    };
    let mut source = "row";
    if !fields.has_value("patch") {
        let Some(repos) = &options.repos else {
            let what = "is missing: the published rows only have ids; complete them with \
                        `#repos=FOLDER`, a folder of clones named `owner__name`";
            return Err(RowError::invalid_field("patch", what));
        };
        let base = details.base_commit.non_empty_text().unwrap_or_default();
        let number = details.pull_number.get().map(ToString::to_string).unwrap_or_default();
        let found = clone::complete_from_clone(repos, repo, base, &number)?;
        source = found.source;
        fields.set_field("patch", found.patch);
        fields.set_field("test_patch", found.test_patch);
        details.non_py_patch = found.non_py_patch.into();
        clone = Some(found.folder);
        if !fields.has_value("problem_info") && !fields.has_value("pull_request_text") {
            fields.set_field(
                "pull_request_text",
                request::request_from_commit(&found.title, &found.body)?,
            );
        }
        if components.is_empty() {
            components = found.components;
        }
    }
    if !fields.has_value("problem_statement") {
        let request = match fields.take_by_name("pull_request_text") {
            Some(Value::String(text)) => text,
            _ => {
                let info = fields.take_by_name("problem_info").ok_or_else(|| {
                    RowError::invalid_field(
                        "problem_statement",
                        "is missing, and the row has no pull request",
                    )
                })?;
                if let Some(hints) = request::discussion(&info) {
                    fields.set_field("hints_text", hints);
                }
                request::request_from_pull(&info)?
            }
        };
        fields.set_field(
            "problem_statement",
            request::build_complete_statement(request, &components)?,
        );
    }
    let count = |kind: &str| {
        DetailField::from(
            components.iter().filter(|component| component.kind == kind).count() as u64
        )
    };
    if !components.is_empty() {
        details.functions_added = count("function");
        details.classes_added = count("class");
        details.new_components = components.into();
    }
    if let Some(discussion) = fields.peek("hints").filter(|text| !text.trim().is_empty()) {
        details.discussion = discussion.into();
    }
    details.problem_source = source.to_owned().into();
    Ok(clone)
}

/// Adds the source to a task that runs without an image, with the host's programs.
pub(super) fn add_source(draft: &mut TaskDraft<'_>) -> Result<(), RowError> {
    let clone = draft.clone.take();
    if draft.task.environment.base.is_none() {
        return Ok(());
    }
    let commit = draft.details.base_commit.get().cloned();
    let commit = commit.ok_or_else(|| RowError::invalid_field("base_commit", "is missing"))?;
    let git = clone.unwrap_or_else(|| {
        format!("https://github.com/{}.git", draft.task.repo.as_deref().unwrap_or_default())
    });
    draft.task.source = Some(Source::Git { git, commit });
    Ok(())
}
