//! What an agent is told: one text for all of them, so that they are compared on equal terms.

use minijinja::value::Serde;
use proctor_scaffold_api::Brief;
use proctor_types::Budget;
use serde::Serialize;
use serde_json::json;

use crate::templates::environment;

/// The shipped text.
pub const TASK: &str = include_str!("../../../prompts/external/task.md.j2");

/// The announced limits. Every field is there, absent ones as none: templates are strict.
#[derive(Debug, Clone, Serialize)]
pub struct Limits {
    steps: Option<u64>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    total_tokens: Option<u64>,
    uncached_input_tokens: Option<u64>,
    cost_usd: Option<f64>,
    wall_seconds: Option<f64>,
    working_seconds: Option<f64>,
}

impl Limits {
    /// `None` where nothing is limited: an empty list of limits would mislead. A limit on tool time is
    /// refused for these scaffolds.
    pub fn of(budget: &Budget) -> Option<Self> {
        let limits = Self {
            steps: budget.steps,
            input_tokens: budget.input_tokens,
            output_tokens: budget.output_tokens,
            total_tokens: budget.total_tokens,
            uncached_input_tokens: budget.uncached_input_tokens,
            cost_usd: budget.cost_usd,
            wall_seconds: budget.wall_seconds,
            working_seconds: budget.working_seconds,
        };
        let said = serde_json::to_value(&limits).unwrap_or_default();
        let any = said.as_object().is_some_and(|all| all.values().any(|one| !one.is_null()));
        any.then_some(limits)
    }

    pub fn sample() -> Self {
        let (count, amount) = (Some(1), Some(1.0));
        Self {
            steps: count,
            input_tokens: count,
            output_tokens: count,
            total_tokens: count,
            uncached_input_tokens: count,
            cost_usd: amount,
            wall_seconds: amount,
            working_seconds: None,
        }
    }
}

/// The prompt of a trial.
pub fn render(template: &str, brief: &Brief) -> Result<String, String> {
    let limits = brief.announced.as_ref().and_then(Limits::of);
    let with = json!({
        "statement": brief.statement.trim(), "workdir": brief.workdir, "limits": limits,
    });
    let text = environment()?
        .render_str(template, Serde(with))
        .map_err(|error| format!("prompt external/task.md.j2: {error:#}"))?;
    Ok(text.trim_end().to_owned())
}
