//! Notices about the budget that are appended to the conversation (`prompts/budget/`).

use minijinja::{Environment, UndefinedBehavior, value::Serde};
use proctor_types::{
    Budget, BudgetEnding, BudgetKind, Disclosure, Fault, FaultLayer, Message, ModelRequest,
    Spending,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

const COUNTDOWN_TEMPLATE: &str = include_str!("../../../prompts/budget/countdown.md.j2");
const GRACE_TEMPLATE: &str = include_str!("../../../prompts/budget/grace.md.j2");

/// Returns the templates of the notices for this budget, which are factors of the arm. Empty if the
/// budget is hidden, or if it is announced only once and ends without a last response.
pub fn notice_templates(budget: &Budget) -> Map<String, Value> {
    let mut texts = Map::new();
    if budget.disclosure == Disclosure::Countdown {
        texts.insert("countdown".into(), COUNTDOWN_TEMPLATE.into());
    }
    if budget.ending == BudgetEnding::Grace {
        texts.insert("grace".into(), GRACE_TEMPLATE.into());
    }
    texts
}

/// How much is left of one limit.
#[derive(Debug, Serialize)]
struct RemainingLimit {
    left: String,
    limit: String,
    unit: &'static str,
}

/// The wall-clock, working and tool time that is left, in seconds. `None` means no limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct RemainingTime {
    /// Wall-clock time.
    pub wall_seconds: Option<f64>,
    /// Wall-clock time without the time spent waiting for endpoints.
    pub working_seconds: Option<f64>,
    /// Time spent in tools.
    pub tool_seconds: Option<f64>,
}

/// Returns the request with a notice of what is left of each limit, appended to the last message.
/// Later requests do not contain this notice: outdated numbers would mislead the model and cost
/// tokens in every request.
///
/// # Errors
/// Fails if the template cannot be rendered.
pub fn add_countdown_notice(
    request: ModelRequest,
    budget: &Budget,
    spending: &Spending,
    remaining_time: RemainingTime,
) -> Result<ModelRequest, Fault> {
    let left = remaining_limits(budget, spending, remaining_time);
    if left.is_empty() {
        return Ok(request);
    }
    let notice = render(COUNTDOWN_TEMPLATE, json!({ "left": left }))?;
    Ok(append_notice(request, &notice))
}

/// Returns the request for the last response after a limit is reached.
///
/// # Errors
/// Fails if the template cannot be rendered.
pub fn add_grace_notice(request: ModelRequest, kind: BudgetKind) -> Result<ModelRequest, Fault> {
    let notice = render(GRACE_TEMPLATE, json!({ "unit": unit(kind) }))?;
    Ok(append_notice(request, &notice))
}

/// Appends the notice to the last message instead of adding a message, because some endpoints
/// reject two consecutive messages with the same role.
fn append_notice(mut request: ModelRequest, notice: &str) -> ModelRequest {
    if let Some(last) = request.messages.last_mut() {
        let (Message::System { content }
        | Message::User { content }
        | Message::Tool { content, .. }
        | Message::Assistant { content, .. }) = last;
        let gap = if content.is_empty() { "" } else { "\n\n" };
        content.push_str(gap);
        content.push_str(notice.trim());
    }
    request
}

fn remaining_limits(
    budget: &Budget,
    spending: &Spending,
    remaining_time: RemainingTime,
) -> Vec<RemainingLimit> {
    let count = |limit: Option<u64>, spent: u64, kind| {
        let limit = limit?;
        let left = limit.saturating_sub(spent).to_string();
        Some(RemainingLimit { left, limit: limit.to_string(), unit: unit(kind) })
    };
    let seconds = |limit: Option<f64>, left: Option<f64>, kind| {
        let (left, limit) = (format!("{:.0}", left?), format!("{:.0}", limit?));
        Some(RemainingLimit { left, limit, unit: unit(kind) })
    };
    let total = spending.input_tokens + spending.output_tokens;
    let fresh = spending.uncached_input_tokens();
    let money = budget.cost_usd.map(|limit| RemainingLimit {
        left: format!("{:.2}", (limit - spending.cost_usd).max(0.0)),
        limit: format!("{limit:.2}"),
        unit: unit(BudgetKind::Cost),
    });
    [
        count(budget.steps, spending.steps, BudgetKind::Steps),
        count(budget.main_steps, spending.main_steps(), BudgetKind::MainSteps),
        count(budget.input_tokens, spending.input_tokens, BudgetKind::InputTokens),
        count(budget.output_tokens, spending.output_tokens, BudgetKind::OutputTokens),
        count(budget.total_tokens, total, BudgetKind::TotalTokens),
        count(budget.uncached_input_tokens, fresh, BudgetKind::UncachedInputTokens),
        money,
        seconds(budget.wall_seconds, remaining_time.wall_seconds, BudgetKind::Wall),
        seconds(budget.working_seconds, remaining_time.working_seconds, BudgetKind::Working),
        seconds(budget.tool_seconds, remaining_time.tool_seconds, BudgetKind::Tools),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the name of a limit's unit, as in the announced limits.
fn unit(kind: BudgetKind) -> &'static str {
    match kind {
        BudgetKind::Steps => "responses",
        BudgetKind::MainSteps => "responses of your own",
        BudgetKind::InputTokens => "input tokens",
        BudgetKind::OutputTokens => "output tokens",
        BudgetKind::TotalTokens => "tokens",
        BudgetKind::UncachedInputTokens => "uncached input tokens",
        BudgetKind::Cost => "US dollars",
        BudgetKind::Wall => "seconds",
        BudgetKind::Working => "seconds of work",
        BudgetKind::Tools => "seconds in tools",
    }
}

fn render(template: &str, variables: Value) -> Result<String, Fault> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment
        .render_str(template, Serde(variables))
        .map_err(|error| Fault::new(FaultLayer::Setup, format!("prompts/budget: {error:#}")))
}

#[cfg(test)]
mod tests {
    use proctor_types::{Budget, BudgetKind, Message, ModelRequest, Spending};

    use super::{RemainingTime, add_countdown_notice, add_grace_notice};

    fn last_message_content(request: &ModelRequest) -> &str {
        match request.messages.last() {
            Some(Message::Tool { content, .. }) => content,
            other => panic!("{other:?}"),
        }
    }

    fn sample_request() -> ModelRequest {
        let last = Message::Tool { call_id: "c".into(), content: "ok".into() };
        ModelRequest {
            messages: vec![Message::System { content: "s".into() }, last],
            tools: Vec::new(),
        }
    }

    #[test]
    fn countdown_notice_is_appended_to_the_last_message() {
        let budget = Budget {
            steps: Some(50),
            cost_usd: Some(2.0),
            tool_seconds: Some(60.0),
            ..Budget::default()
        };
        let spent = Spending { steps: 12, cost_usd: 0.5, ..Spending::default() };
        let time = RemainingTime { tool_seconds: Some(12.4), ..RemainingTime::default() };
        let told = add_countdown_notice(sample_request(), &budget, &spent, time)
            .expect("the template is valid");
        assert_eq!(
            last_message_content(&told),
            "ok\n\n[Remaining: 38 of 50 responses, 1.50 of 2.00 US dollars, 12 of 60 seconds in \
             tools. When a limit is reached, your work is graded as it is.]"
        );
        assert_eq!(told.messages[0], sample_request().messages[0]);
    }

    #[test]
    fn countdown_notice_is_omitted_without_limits() {
        let told = add_countdown_notice(
            sample_request(),
            &Budget::default(),
            &Spending::default(),
            RemainingTime::default(),
        );
        assert_eq!(told.expect("nothing to render"), sample_request());
    }

    #[test]
    fn grace_notice_names_the_limit_that_was_reached() {
        let told =
            add_grace_notice(sample_request(), BudgetKind::Steps).expect("the template is valid");
        assert!(
            last_message_content(&told).starts_with("ok\n\n[The limit on responses is reached."),
            "{told:?}"
        );
    }
}
