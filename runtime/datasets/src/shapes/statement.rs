//! Builds the statement in the benchmark's form.

use serde::Serialize;

use super::fields::Fields;
use crate::{address::Options, bad::Complaint, template::fill};

const HINTS: &str = include_str!("../../../../prompts/swe-bench/hints.md.j2");

/// Returns the row's statement, followed by hints if requested. The benchmarks' own runs omit hints.
pub(crate) fn of(fields: &mut Fields<'_>, options: &Options) -> Result<String, Complaint> {
    let statement = fields.needed("statement")?;
    let hints = fields.text("hints")?.filter(|hints| options.hints && !hints.trim().is_empty());
    let Some(hints) = hints else {
        return Ok(statement);
    };
    #[derive(Serialize)]
    struct Filling {
        statement: String,
        hints: String,
    }
    render(HINTS, Filling { statement, hints })
}

/// Fills a template from `prompts/`.
pub(crate) fn render(template: &str, filling: impl Serialize) -> Result<String, Complaint> {
    fill(template, filling)
        .map_err(|error| Complaint::whole(format!("statement template: {error:#}")))
}
