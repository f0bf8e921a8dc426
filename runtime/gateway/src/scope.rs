//! A scope: one set of limits, with the amounts spent and the amounts reserved for requests in
//! flight.
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

/// The maximum amounts that one request can use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MaxUsage {
    pub class: RequestClass,
    /// Whether a sub-agent made the request. If so, the request counts as a step but not as a main
    /// step.
    pub is_from_sub_agent: bool,
    pub input_tokens: u64,
    /// Output tokens. If `None` (unknown) and a limit depends on output, the request runs alone.
    pub output_tokens: Option<u64>,
    pub cost_usd: f64,
}

impl MaxUsage {
    /// Upper bound on the tokens of any request. A client's larger limit is clamped to this value.
    const MAX_TOKENS: u64 = 1 << 40;

    pub(crate) fn clamp_tokens(mut self) -> Self {
        self.input_tokens = self.input_tokens.min(Self::MAX_TOKENS);
        self.output_tokens = self.output_tokens.map(|output| output.min(Self::MAX_TOKENS));
        self
    }
}

/// Amounts that requests in flight reserve.
#[derive(Debug, Default)]
struct ReservedAmounts {
    requests: u64,
    steps: u64,
    main_steps: u64,
    input_tokens: u64,
    output_tokens: u64,
    cost_usd: f64,
    /// Whether one of the reserved requests must run alone.
    is_exclusive: bool,
}

#[derive(Debug, Default)]
struct ScopeSpending {
    spending: Spending,
    reserved: ReservedAmounts,
    queue: VecDeque<u64>,
    next_ticket: u64,
    /// The limit for which a main request was rejected. Once it is set, the trial is over, so side
    /// requests are also rejected.
    exhausted_limit: Option<BudgetKind>,
}

#[derive(Debug)]
pub(crate) struct Scope {
    pub scope: BudgetScope,
    limits: Budget,
    state: Mutex<ScopeSpending>,
    change_notify: Notify,
}

impl Scope {
    pub(crate) fn new(scope: BudgetScope, limits: Budget, spending: Spending) -> Self {
        let state = ScopeSpending { spending, ..ScopeSpending::default() };
        Self { scope, limits, state: Mutex::new(state), change_notify: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, ScopeSpending> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn spending(&self) -> Spending {
        self.lock().spending
    }

    pub(crate) fn set_spending(&self, spending: Spending) {
        self.lock().spending = spending;
    }

    pub(crate) fn count_step(&self) {
        self.lock().spending.steps += 1;
    }

    /// Counts the response to a request that was sent after a limit was reached.
    pub(crate) fn count_grace_response(
        &self,
        usage: &Usage,
        cost_usd: Option<f64>,
        is_delivered: bool,
    ) {
        self.lock().spending.add_grace(usage, cost_usd, is_delivered);
    }

    /// Returns the first limit that is used up, in the order of [`BudgetKind`].
    pub(crate) fn reached_limit(&self) -> Option<BudgetKind> {
        let spending = self.spending();
        first_reached_limit(&self.limits, &self.counted_spending(&spending))
    }

    /// Whether `spending` reaches a limit of the given kind.
    pub(crate) fn reaches_limit(&self, kind: BudgetKind, spending: &Spending) -> bool {
        reached_limits(&self.limits, spending).any(|reached| reached == kind)
    }

    /// Returns the spending that the limits count. A trial's own limits count only what the endpoint
    /// delivered. Shared limits protect the user's account, so they count failed attempts, too.
    fn counted_spending(&self, spending: &Spending) -> Spending {
        if self.scope.is_trial() { spending.delivered() } else { *spending }
    }

    /// Resolves when `max_usage` is reserved, or fails with the limit that is reached. Dropping the
    /// future removes the request from the queue.
    pub(crate) async fn reserve(
        self: &Arc<Self>,
        max_usage: MaxUsage,
    ) -> Result<ScopeReservation, BudgetKind> {
        let place = Ticket::take(self);
        loop {
            // Subscribe before checking, so that no change is missed in between.
            let changed = self.change_notify.notified();
            if self.try_reserve(place.ticket, &max_usage)? {
                return Ok(ScopeReservation { scope: Arc::clone(self), max_usage });
            }
            changed.await;
        }
    }

    fn try_reserve(&self, ticket: u64, max_usage: &MaxUsage) -> Result<bool, BudgetKind> {
        let mut state = self.lock();
        let counted = self.counted_spending(&state.spending);
        let reached = match max_usage.class {
            RequestClass::Main if !max_usage.is_from_sub_agent => {
                first_reached_limit(&self.limits, &counted)
            }
            // The last main step may still start sub-agents. After a main request is rejected, no
            // sub-agent may continue.
            RequestClass::Main => state.exhausted_limit.or_else(|| {
                let limits = Budget { main_steps: None, ..self.limits.clone() };
                first_reached_limit(&limits, &counted)
            }),
            // The tools of the last step may still make side requests, but not after a main request
            // is rejected.
            RequestClass::Side => state.exhausted_limit.or_else(|| {
                let limits = Budget { steps: None, main_steps: None, ..self.limits.clone() };
                first_reached_limit(&limits, &counted)
            }),
        };
        if let Some(kind) = reached {
            if max_usage.class == RequestClass::Main {
                state.exhausted_limit = Some(kind);
            }
            return Err(kind);
        }
        if state.queue.front() != Some(&ticket) || !self.fits(&state, max_usage) {
            return Ok(false);
        }
        let alone = state.spending.outgrown || self.is_unbounded(max_usage);
        let held = &mut state.reserved;
        held.requests += 1;
        held.steps += reserved_steps(max_usage);
        held.main_steps += reserved_main_steps(max_usage);
        held.input_tokens += max_usage.input_tokens;
        held.output_tokens += max_usage.output_tokens.unwrap_or_default();
        held.cost_usd += max_usage.cost_usd;
        held.is_exclusive |= alone;
        Ok(true)
    }

    /// Whether the request has no output limit although one of the scope's limits depends on
    /// output. Such a request could exceed that limit by an unknown amount.
    pub(crate) fn is_unbounded(&self, max_usage: &MaxUsage) -> bool {
        let limits = &self.limits;
        let matters = limits.output_tokens.is_some()
            || limits.total_tokens.is_some()
            || limits.cost_usd.is_some();
        max_usage.output_tokens.is_none() && matters
    }

    fn fits(&self, state: &ScopeSpending, max_usage: &MaxUsage) -> bool {
        let spent = self.counted_spending(&state.spending);
        let (held, limits) = (&state.reserved, &self.limits);
        if held.requests == 0 {
            return true;
        }
        if held.is_exclusive || state.spending.outgrown || self.is_unbounded(max_usage) {
            return false;
        }
        let output = max_usage.output_tokens.unwrap_or_default();
        let within = |limit: Option<u64>, spent: u64, held: u64, need: u64| {
            limit.is_none_or(|limit| spent + held + need <= limit)
        };
        let cost = spent.cost_usd + held.cost_usd + max_usage.cost_usd;
        within(limits.steps, spent.steps, held.steps, reserved_steps(max_usage))
            && within(
                limits.main_steps,
                spent.main_steps(),
                held.main_steps,
                reserved_main_steps(max_usage),
            )
            && within(
                limits.input_tokens,
                spent.input_tokens,
                held.input_tokens,
                max_usage.input_tokens,
            )
            && within(limits.output_tokens, spent.output_tokens, held.output_tokens, output)
            && within(
                limits.total_tokens,
                spent.input_tokens + spent.output_tokens,
                held.input_tokens + held.output_tokens,
                max_usage.input_tokens + output,
            )
            && within(
                limits.uncached_input_tokens,
                spent.uncached_input_tokens(),
                held.input_tokens,
                max_usage.input_tokens,
            )
            && limits.cost_usd.is_none_or(|limit| to_nano_dollars(cost) <= to_nano_dollars(limit))
    }
}

fn reserved_steps(max_usage: &MaxUsage) -> u64 {
    u64::from(max_usage.class == RequestClass::Main)
}

fn reserved_main_steps(max_usage: &MaxUsage) -> u64 {
    u64::from(max_usage.class == RequestClass::Main && !max_usage.is_from_sub_agent)
}

/// Rounds to whole billionths of a dollar: three times $0.15 must equal $0.45, although the sum of
/// the floats is less.
fn to_nano_dollars(dollars: f64) -> f64 {
    (dollars * 1e9).round()
}

fn first_reached_limit(limits: &Budget, spending: &Spending) -> Option<BudgetKind> {
    reached_limits(limits, spending).next()
}

/// Returns the limits that are used up, in the order of [`BudgetKind`].
fn reached_limits(
    limits: &Budget,
    spending: &Spending,
) -> impl Iterator<Item = BudgetKind> + use<> {
    let over = |limit: Option<u64>, have: u64| limit.is_some_and(|limit| have >= limit);
    let total = spending.input_tokens + spending.output_tokens;
    let checks = [
        (BudgetKind::Steps, over(limits.steps, spending.steps)),
        (BudgetKind::MainSteps, over(limits.main_steps, spending.main_steps())),
        (BudgetKind::InputTokens, over(limits.input_tokens, spending.input_tokens)),
        (BudgetKind::OutputTokens, over(limits.output_tokens, spending.output_tokens)),
        (BudgetKind::TotalTokens, over(limits.total_tokens, total)),
        (
            BudgetKind::UncachedInputTokens,
            over(limits.uncached_input_tokens, spending.uncached_input_tokens()),
        ),
        (
            BudgetKind::Cost,
            limits
                .cost_usd
                .is_some_and(|limit| to_nano_dollars(spending.cost_usd) >= to_nano_dollars(limit)),
        ),
    ];
    checks.into_iter().filter(|(_, reached)| *reached).map(|(kind, _)| kind)
}

/// A place in the queue. Dropping the ticket gives up the place.
struct Ticket<'a> {
    scope: &'a Scope,
    ticket: u64,
}

impl<'a> Ticket<'a> {
    fn take(scope: &'a Scope) -> Self {
        let mut state = scope.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.queue.push_back(ticket);
        Self { scope, ticket }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.scope.lock().queue.retain(|ticket| *ticket != self.ticket);
        self.scope.change_notify.notify_waiters();
    }
}

/// The reservation of one request in flight. Dropping it releases the reservation.
#[derive(Debug)]
pub(crate) struct ScopeReservation {
    scope: Arc<Scope>,
    max_usage: MaxUsage,
}

impl ScopeReservation {
    /// Charges what the request used and only then releases its reservation. Returns the step
    /// number if the response was a step.
    pub(crate) fn settle(
        self,
        usage: &Usage,
        cost_usd: Option<f64>,
        is_delivered: bool,
    ) -> Option<u64> {
        let mut state = self.scope.lock();
        state.spending.add(self.max_usage.class, usage, cost_usd, is_delivered);
        let of_sub_agent =
            self.max_usage.class == RequestClass::Main && self.max_usage.is_from_sub_agent;
        state.spending.sub_agent_steps += u64::from(is_delivered && of_sub_agent);
        let output = self.max_usage.output_tokens.unwrap_or(u64::MAX);
        state.spending.outgrown |=
            usage.input > self.max_usage.input_tokens || usage.output > output;
        (is_delivered && self.max_usage.class == RequestClass::Main).then_some(state.spending.steps)
    }

    /// Like [`Self::settle`], for an attempt without a usable response.
    pub(crate) fn settle_failed(self, usage: &Usage, cost_usd: Option<f64>) {
        self.scope.lock().spending.add_failed(usage, cost_usd);
        self.settle(usage, cost_usd, false);
    }
}

impl Drop for ScopeReservation {
    fn drop(&mut self) {
        let mut state = self.scope.lock();
        let held = &mut state.reserved;
        held.requests -= 1;
        held.steps -= reserved_steps(&self.max_usage);
        held.main_steps -= reserved_main_steps(&self.max_usage);
        held.input_tokens -= self.max_usage.input_tokens;
        held.output_tokens -= self.max_usage.output_tokens.unwrap_or_default();
        held.cost_usd -= self.max_usage.cost_usd;
        if held.requests == 0 {
            // Nothing is reserved any longer, so reset the sums to remove rounding errors.
            *held = ReservedAmounts::default();
        }
        drop(state);
        self.scope.change_notify.notify_waiters();
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

    #[tokio::test]
    async fn failed_attempts_count_only_towards_shared_limits() {
        let limits = [
            (Budget { input_tokens: Some(20), ..Budget::default() }, BudgetKind::InputTokens),
            (Budget { output_tokens: Some(10), ..Budget::default() }, BudgetKind::OutputTokens),
            (Budget { total_tokens: Some(30), ..Budget::default() }, BudgetKind::TotalTokens),
            (
                Budget { uncached_input_tokens: Some(12), ..Budget::default() },
                BudgetKind::UncachedInputTokens,
            ),
            (Budget { cost_usd: Some(0.2), ..Budget::default() }, BudgetKind::Cost),
        ];
        for (limits, kind) in limits {
            for of in [BudgetScope::Trial, BudgetScope::Arm, BudgetScope::Run] {
                let scope = Arc::new(Scope::new(of, limits.clone(), Spending::default()));
                let need = MaxUsage {
                    class: RequestClass::Main,
                    is_from_sub_agent: false,
                    input_tokens: 10,
                    output_tokens: Some(5),
                    cost_usd: 0.1,
                };
                let usage = Usage { input: 10, output: 5, cached: 4, ..Usage::default() };
                for _ in 0..2 {
                    let hold = scope.reserve(need).await.expect("some budget is left");
                    hold.settle_failed(&usage, Some(0.1));
                }
                let reached = (!of.is_trial()).then_some(kind);
                assert_eq!(scope.reached_limit(), reached, "{of} {kind}");
                let spent = scope.spending();
                assert_eq!((spent.input_tokens, spent.output_tokens, spent.steps), (20, 10, 0));
                if !of.is_trial() {
                    continue;
                }
                for _ in 0..2 {
                    let hold = scope.reserve(need).await.expect("nothing was delivered");
                    hold.settle(&usage, Some(0.1), true);
                }
                assert_eq!(scope.reached_limit(), Some(kind), "delivered responses count");
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
            let need = MaxUsage {
                class,
                is_from_sub_agent: sub_agent,
                input_tokens: 10,
                output_tokens: Some(5),
                cost_usd: 0.0,
            };
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
        let spent = scope.spending();
        assert_eq!((spent.steps, spent.sub_agent_steps, spent.main_steps()), (4, 2, 2));
    }
}
