//! The interface for limits that several processes share. The gateway reserves amounts by name.
//! Another crate implements the interface and stores the reservations.

use std::{collections::BTreeMap, fmt, sync::Arc};

use async_trait::async_trait;
use proctor_types::{BudgetKind, BudgetScope, Fault, RequestClass, SharedLimits, Spending, Usage};

use crate::{RequestError, scope::MaxUsage};

/// Amounts by name.
pub type Amounts = BTreeMap<String, u64>;

/// A limit that several processes share.
#[async_trait]
pub trait SharedLimit: fmt::Debug + Send + Sync {
    /// Resolves when the amounts are reserved. Set `is_exclusive` if the request's usage is
    /// unknown, so that it must run alone.
    async fn reserve(
        &self,
        amounts: &Amounts,
        is_exclusive: bool,
    ) -> Result<Box<dyn Reservation>, ReserveError>;

    /// Returns the name of the limit that is used up, if any.
    fn reached_limit(&self) -> Option<String>;
}

/// Reserved amounts. Dropping the reservation releases them.
pub trait Reservation: fmt::Debug + Send + Sync {
    /// Replaces the reservation with the actual usage.
    fn settle(self: Box<Self>, usage: Amounts);
}

/// Why nothing was reserved.
#[derive(Debug)]
pub enum ReserveError {
    /// The limit of this name is used up.
    Reached(String),
    Fault(Fault),
}

/// The limits of one `[endpoints]` table, shared across processes.
#[derive(Debug, Default, Clone)]
pub struct SharedRates {
    /// Limit on `requests` in flight.
    pub in_flight_limit: Option<Arc<dyn SharedLimit>>,
    /// Limits on `requests` and `tokens` within a time window.
    pub window_limit: Option<Arc<dyn SharedLimit>>,
}

/// Names of amounts.
pub const REQUESTS: &str = "requests";
pub const TOKENS: &str = "tokens";

const STEPS: &str = "steps";
const INPUT_TOKENS: &str = "input_tokens";
const OUTPUT_TOKENS: &str = "output_tokens";
const TOTAL_TOKENS: &str = "total_tokens";
const UNCACHED_INPUT_TOKENS: &str = "uncached_input_tokens";
/// Cost in whole billionths of a dollar.
const COST: &str = "cost_nano_usd";

impl ReserveError {
    pub(crate) fn into_budget_error(self, scope: BudgetScope) -> RequestError {
        match self {
            Self::Reached(name) => match budget_kind(&name) {
                Some(kind) => RequestError::SharedBudget { scope, kind },
                None => RequestError::Fault(Fault::new(
                    proctor_types::FaultLayer::Model,
                    format!("the shared limit {name} is not a budget"),
                )),
            },
            Self::Fault(fault) => RequestError::Fault(fault),
        }
    }

    /// Returns the fault for a rate limit, which only delays requests and is never used up.
    pub(crate) fn into_rate_fault(self) -> Fault {
        match self {
            Self::Reached(name) => Fault::new(
                proctor_types::FaultLayer::Model,
                format!("the shared rate limit on {name} is exhausted"),
            ),
            Self::Fault(fault) => fault,
        }
    }
}

/// The budget kind of each amount.
const BUDGET_KINDS: [(&str, BudgetKind); 6] = [
    (STEPS, BudgetKind::Steps),
    (INPUT_TOKENS, BudgetKind::InputTokens),
    (OUTPUT_TOKENS, BudgetKind::OutputTokens),
    (TOTAL_TOKENS, BudgetKind::TotalTokens),
    (UNCACHED_INPUT_TOKENS, BudgetKind::UncachedInputTokens),
    (COST, BudgetKind::Cost),
];

/// Returns the budget kind of an amount's name, or `None` for a rate, which only delays requests
/// and is never used up.
pub(crate) fn budget_kind(name: &str) -> Option<BudgetKind> {
    BUDGET_KINDS.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
}

fn amounts(counts: [(&str, u64); 6]) -> Amounts {
    let counts = counts.into_iter().filter(|(_, count)| *count > 0);
    counts.map(|(name, count)| (name.to_owned(), count)).collect()
}

fn to_nano_dollars(dollars: f64) -> u64 {
    // The upper bound is far above any configurable limit.
    (dollars * 1e9).round().clamp(0.0, 9e18) as u64
}

/// Returns the limits by name.
pub fn limit_amounts(limits: &SharedLimits) -> Amounts {
    let all = [
        (STEPS, limits.steps),
        (INPUT_TOKENS, limits.input_tokens),
        (OUTPUT_TOKENS, limits.output_tokens),
        (TOTAL_TOKENS, limits.total_tokens),
        (UNCACHED_INPUT_TOKENS, limits.uncached_input_tokens),
        (COST, limits.cost_usd.map(to_nano_dollars)),
    ];
    all.into_iter().filter_map(|(name, limit)| Some((name.to_owned(), limit?))).collect()
}

/// Returns the usage under the same names as [`limit_amounts`].
pub fn spent_amounts(spending: &Spending) -> Amounts {
    amounts([
        (STEPS, spending.steps),
        (INPUT_TOKENS, spending.input_tokens),
        (OUTPUT_TOKENS, spending.output_tokens),
        (TOTAL_TOKENS, spending.input_tokens.saturating_add(spending.output_tokens)),
        (UNCACHED_INPUT_TOKENS, spending.uncached_input_tokens()),
        (COST, to_nano_dollars(spending.cost_usd)),
    ])
}

/// Returns the most that a request may use.
pub(crate) fn needed_amounts(max_usage: &MaxUsage) -> Amounts {
    let output = max_usage.output_tokens.unwrap_or_default();
    amounts([
        (STEPS, u64::from(max_usage.class == RequestClass::Main)),
        (INPUT_TOKENS, max_usage.input_tokens),
        (OUTPUT_TOKENS, output),
        (TOTAL_TOKENS, max_usage.input_tokens.saturating_add(output)),
        (UNCACHED_INPUT_TOKENS, max_usage.input_tokens),
        (COST, to_nano_dollars(max_usage.cost_usd)),
    ])
}

/// Returns the amounts that a request used.
pub(crate) fn used_amounts(
    class: RequestClass,
    usage: &Usage,
    cost_usd: Option<f64>,
    is_delivered: bool,
) -> Amounts {
    let mut all = Spending::default();
    all.add(class, usage, cost_usd, is_delivered);
    spent_amounts(&all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_limits_and_amounts_have_the_same_names() {
        let all = SharedLimits {
            steps: Some(1),
            input_tokens: Some(1),
            output_tokens: Some(1),
            total_tokens: Some(1),
            uncached_input_tokens: Some(1),
            cost_usd: Some(0.25),
        };
        let usage = Usage { input: 3, output: 4, ..Usage::default() };
        let took = used_amounts(RequestClass::Main, &usage, Some(0.5), true);
        let names = |amounts: &Amounts| amounts.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&limit_amounts(&all)), names(&took));
        assert_eq!(
            (took[TOTAL_TOKENS], took[COST], limit_amounts(&all)[COST]),
            (7, 500_000_000, 250_000_000)
        );
        let need = MaxUsage {
            class: RequestClass::Main,
            is_from_sub_agent: false,
            input_tokens: 3,
            output_tokens: Some(4),
            cost_usd: 0.5,
        };
        assert_eq!(needed_amounts(&need), took);
        let kinds: Vec<_> = took.keys().filter_map(|name| budget_kind(name)).collect();
        assert_eq!(kinds.len(), 6);
        assert!(kinds.contains(&BudgetKind::Cost) && kinds.contains(&BudgetKind::Steps));
    }
}
