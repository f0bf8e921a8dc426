//! One set of limits, with the amounts spent and the amounts reserved for requests in flight.
//!
//! Each trial has its own scope. The scopes of an arm and of a run are shared by their trials.
//! Requests are admitted in order of arrival, so that small ones cannot starve a large one. A
//! request is admitted only if the sum of everything spent, reserved and requested fits within the
//! limits. A request that does not fit waits until no request is in flight. It is then admitted
//! anyway, so only its response can exceed the limit.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use proctor_types::{Budget, BudgetKind, BudgetScope, RequestClass, Spending, Usage};
use tokio::sync::Notify;

/// The maximum that one request can use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MaxUsage {
    pub class: RequestClass,
    /// Whether a sub-agent made the request. If so, the request counts as a step but not as a main
    /// step.
    pub sub_agent: bool,
    pub input: u64,
    /// Output tokens. If `None` (unknown) and a limit depends on output, the request runs alone.
    pub output: Option<u64>,
    pub cost_usd: f64,
}

impl MaxUsage {
    /// Upper bound on the tokens of any request. A client's larger limit is clamped to this value.
    const MAX_TOKENS: u64 = 1 << 40;

    pub(crate) fn clamped(mut self) -> Self {
        self.input = self.input.min(Self::MAX_TOKENS);
        self.output = self.output.map(|output| output.min(Self::MAX_TOKENS));
        self
    }
}

/// Amounts that requests in flight reserve.
#[derive(Debug, Default)]
struct ReservedAmounts {
    requests: u64,
    steps: u64,
    main_steps: u64,
    input: u64,
    output: u64,
    cost_usd: f64,
    /// Whether one of these requests must run alone.
    alone: bool,
}

#[derive(Debug, Default)]
struct ScopeSpending {
    spent: Spending,
    held: ReservedAmounts,
    queue: VecDeque<u64>,
    next: u64,
    /// Set when a main request is rejected. The trial is then over, so side requests are also
    /// rejected.
    ended: Option<BudgetKind>,
}

#[derive(Debug)]
pub(crate) struct Scope {
    pub scope: BudgetScope,
    limits: Budget,
    state: Mutex<ScopeSpending>,
    changed: Notify,
}

impl Scope {
    pub(crate) fn new(scope: BudgetScope, limits: Budget, spent: Spending) -> Self {
        let state = ScopeSpending { spent, ..ScopeSpending::default() };
        Self { scope, limits, state: Mutex::new(state), changed: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, ScopeSpending> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn spent(&self) -> Spending {
        self.lock().spent
    }

    pub(crate) fn set_spent(&self, spent: Spending) {
        self.lock().spent = spent;
    }

    pub(crate) fn count_step(&self) {
        self.lock().spent.steps += 1;
    }

    /// Counts the response to a request that was sent after a limit was reached.
    pub(crate) fn add_grace(&self, usage: &Usage, cost_usd: Option<f64>, delivered: bool) {
        self.lock().spent.add_grace(usage, cost_usd, delivered);
    }

    /// Returns the first limit that is used up, in the order of [`BudgetKind`].
    pub(crate) fn reached_limit(&self) -> Option<BudgetKind> {
        first_reached_limit(&self.limits, &self.lock().spent)
    }

    /// Resolves when `need` is reserved, or fails with the limit that is reached. Dropping the
    /// future removes the request from the queue.
    pub(crate) async fn reserve(
        self: &Arc<Self>,
        need: MaxUsage,
    ) -> Result<ScopeReservation, BudgetKind> {
        let place = Ticket::take(self);
        loop {
            // Subscribe before checking, so that no change is missed in between.
            let changed = self.changed.notified();
            if self.try_reserve(place.ticket, &need)? {
                return Ok(ScopeReservation { scope: Arc::clone(self), need });
            }
            changed.await;
        }
    }

    fn try_reserve(&self, ticket: u64, need: &MaxUsage) -> Result<bool, BudgetKind> {
        let mut state = self.lock();
        let reached = match need.class {
            RequestClass::Main if !need.sub_agent => {
                first_reached_limit(&self.limits, &state.spent)
            }
            // The last main step may still start sub-agents. After a main request is rejected, no
            // sub-agent may continue.
            RequestClass::Main => state.ended.or_else(|| {
                first_reached_limit(
                    &Budget { main_steps: None, ..self.limits.clone() },
                    &state.spent,
                )
            }),
            // The tools of the last step may still make side requests, but not after a main request
            // is rejected.
            RequestClass::Side => state.ended.or_else(|| {
                let limits = Budget { steps: None, main_steps: None, ..self.limits.clone() };
                first_reached_limit(&limits, &state.spent)
            }),
        };
        if let Some(kind) = reached {
            if need.class == RequestClass::Main {
                state.ended = Some(kind);
            }
            return Err(kind);
        }
        if state.queue.front() != Some(&ticket) || !self.fits(&state, need) {
            return Ok(false);
        }
        let alone = state.spent.outgrown || self.is_unbounded(need);
        let held = &mut state.held;
        held.requests += 1;
        held.steps += reserved_steps(need);
        held.main_steps += reserved_main_steps(need);
        held.input += need.input;
        held.output += need.output.unwrap_or_default();
        held.cost_usd += need.cost_usd;
        held.alone |= alone;
        Ok(true)
    }

    /// Whether the request could exceed a limit by an unknown amount.
    pub(crate) fn is_unbounded(&self, need: &MaxUsage) -> bool {
        let limits = &self.limits;
        let matters = limits.output_tokens.is_some()
            || limits.total_tokens.is_some()
            || limits.cost_usd.is_some();
        need.output.is_none() && matters
    }

    fn fits(&self, state: &ScopeSpending, need: &MaxUsage) -> bool {
        let (spent, held, limits) = (&state.spent, &state.held, &self.limits);
        if held.requests == 0 {
            return true;
        }
        if held.alone || state.spent.outgrown || self.is_unbounded(need) {
            return false;
        }
        let output = need.output.unwrap_or_default();
        let within = |limit: Option<u64>, spent: u64, held: u64, need: u64| {
            limit.is_none_or(|limit| spent + held + need <= limit)
        };
        let cost = spent.cost_usd + held.cost_usd + need.cost_usd;
        within(limits.steps, spent.steps, held.steps, reserved_steps(need))
            && within(
                limits.main_steps,
                spent.main_steps(),
                held.main_steps,
                reserved_main_steps(need),
            )
            && within(limits.input_tokens, spent.input_tokens, held.input, need.input)
            && within(limits.output_tokens, spent.output_tokens, held.output, output)
            && within(
                limits.total_tokens,
                spent.input_tokens + spent.output_tokens,
                held.input + held.output,
                need.input + output,
            )
            && within(
                limits.uncached_input_tokens,
                spent.uncached_input_tokens(),
                held.input,
                need.input,
            )
            && limits.cost_usd.is_none_or(|limit| to_nano_dollars(cost) <= to_nano_dollars(limit))
    }
}

fn reserved_steps(need: &MaxUsage) -> u64 {
    u64::from(need.class == RequestClass::Main)
}

fn reserved_main_steps(need: &MaxUsage) -> u64 {
    u64::from(need.class == RequestClass::Main && !need.sub_agent)
}

/// Rounds to whole billionths of a dollar: three times $0.15 must equal $0.45, although the sum of
/// the floats is less.
fn to_nano_dollars(dollars: f64) -> f64 {
    (dollars * 1e9).round()
}

fn first_reached_limit(limits: &Budget, spent: &Spending) -> Option<BudgetKind> {
    let over = |limit: Option<u64>, have: u64| limit.is_some_and(|limit| have >= limit);
    let total = spent.input_tokens + spent.output_tokens;
    let checks = [
        (BudgetKind::Steps, over(limits.steps, spent.steps)),
        (BudgetKind::MainSteps, over(limits.main_steps, spent.main_steps())),
        (BudgetKind::InputTokens, over(limits.input_tokens, spent.input_tokens)),
        (BudgetKind::OutputTokens, over(limits.output_tokens, spent.output_tokens)),
        (BudgetKind::TotalTokens, over(limits.total_tokens, total)),
        (
            BudgetKind::UncachedInputTokens,
            over(limits.uncached_input_tokens, spent.uncached_input_tokens()),
        ),
        (
            BudgetKind::Cost,
            limits
                .cost_usd
                .is_some_and(|limit| to_nano_dollars(spent.cost_usd) >= to_nano_dollars(limit)),
        ),
    ];
    checks.into_iter().find(|(_, reached)| *reached).map(|(kind, _)| kind)
}

/// A place in the queue. Dropping the ticket gives up the place.
struct Ticket<'a> {
    scope: &'a Scope,
    ticket: u64,
}

impl<'a> Ticket<'a> {
    fn take(scope: &'a Scope) -> Self {
        let mut state = scope.lock();
        let ticket = state.next;
        state.next += 1;
        state.queue.push_back(ticket);
        Self { scope, ticket }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.scope.lock().queue.retain(|ticket| *ticket != self.ticket);
        self.scope.changed.notify_waiters();
    }
}

/// The reservation of one request in flight. Dropping it releases the reservation.
#[derive(Debug)]
pub(crate) struct ScopeReservation {
    scope: Arc<Scope>,
    need: MaxUsage,
}

impl ScopeReservation {
    /// Charges what the request used and only then releases its reservation. Returns the step
    /// number if the response was a step.
    pub(crate) fn settle(
        self,
        usage: &Usage,
        cost_usd: Option<f64>,
        delivered: bool,
    ) -> Option<u64> {
        let mut state = self.scope.lock();
        state.spent.add(self.need.class, usage, cost_usd, delivered);
        let of_sub_agent = self.need.class == RequestClass::Main && self.need.sub_agent;
        state.spent.sub_agent_steps += u64::from(delivered && of_sub_agent);
        let output = self.need.output.unwrap_or(u64::MAX);
        state.spent.outgrown |= usage.input > self.need.input || usage.output > output;
        (delivered && self.need.class == RequestClass::Main).then_some(state.spent.steps)
    }
}

impl Drop for ScopeReservation {
    fn drop(&mut self) {
        let mut state = self.scope.lock();
        let held = &mut state.held;
        held.requests -= 1;
        held.steps -= reserved_steps(&self.need);
        held.main_steps -= reserved_main_steps(&self.need);
        held.input -= self.need.input;
        held.output -= self.need.output.unwrap_or_default();
        held.cost_usd -= self.need.cost_usd;
        if held.requests == 0 {
            // Nothing is reserved any longer, so reset the sums to remove rounding errors.
            *held = ReservedAmounts::default();
        }
        drop(state);
        self.scope.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_limit_ignores_float_rounding() {
        for (each, times) in [(0.15, 3), (0.1, 10), (0.07, 7)] {
            let limits = Budget { cost_usd: Some(each * f64::from(times)), ..Budget::default() };
            let mut spent = Spending::default();
            for answer in 1..=times {
                spent.cost_usd += each;
                let expected = (answer == times).then_some(BudgetKind::Cost);
                assert_eq!(first_reached_limit(&limits, &spent), expected, "{each} x {answer}");
            }
        }
    }

    /// A limit on main steps does not affect sub-agents until the agent itself is rejected.
    #[tokio::test]
    async fn main_steps_exclude_sub_agent_steps() {
        let limits = Budget { main_steps: Some(2), steps: Some(9), ..Budget::default() };
        let scope = Arc::new(Scope::new(BudgetScope::Trial, limits, Spending::default()));
        let ask = async |sub_agent: bool| {
            let class = RequestClass::Main;
            let need = MaxUsage { class, sub_agent, input: 10, output: Some(5), cost_usd: 0.0 };
            let hold = scope.reserve(need).await?;
            let usage = Usage { input: 10, output: 5, ..Usage::default() };
            Ok::<_, BudgetKind>(hold.settle(&usage, None, true))
        };
        assert_eq!(ask(false).await, Ok(Some(1)));
        assert_eq!(ask(true).await, Ok(Some(2)));
        assert_eq!(ask(false).await, Ok(Some(3)));
        assert_eq!(ask(true).await, Ok(Some(4)), "the last main step may start sub-agents");
        assert_eq!(scope.reached_limit(), Some(BudgetKind::MainSteps));
        assert_eq!(ask(false).await, Err(BudgetKind::MainSteps));
        assert_eq!(ask(true).await, Err(BudgetKind::MainSteps), "the trial is over");
        let spent = scope.spent();
        assert_eq!((spent.steps, spent.sub_agent_steps, spent.main_steps()), (4, 2, 2));
    }
}
