//! Builds the statement in the benchmark's form.

use serde::Serialize;

use super::fields::RowFields;
use crate::{address::AddressOptions, errors::RowError, template::render_template};

const HINTS_TEMPLATE: &str = include_str!("../../../../prompts/swe-bench/hints.md.j2");

/// Returns the row's statement, followed by its hints if requested. By default, hints are left out,
/// as in the benchmarks' own runs.
pub(crate) fn build_statement(
    fields: &mut RowFields<'_>,
    options: &AddressOptions,
) -> Result<String, RowError> {
    let statement = fields.take_required_text("statement")?;
    let hints =
        fields.take_text("hints")?.filter(|hints| options.has_hints && !hints.trim().is_empty());
    let Some(hints) = hints else {
        return Ok(statement);
    };
    #[derive(Serialize)]
    struct TemplateVariables {
        statement: String,
        hints: String,
    }
    render_statement(HINTS_TEMPLATE, TemplateVariables { statement, hints })
}

/// Fills a template from `prompts/`.
pub(crate) fn render_statement(
    template: &str,
    variables: impl Serialize,
) -> Result<String, RowError> {
    render_template(template, variables).map_err(|error| {
        RowError::invalid_row(format!("cannot render the statement template: {error:#}"))
    })
}
