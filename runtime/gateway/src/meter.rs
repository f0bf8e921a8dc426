//! What a trial has spent, and the one place where limits are checked.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use proctor_types::{Budget, BudgetKind, Spent, Usage};
use tokio::time::Instant;

use crate::retry::seconds;

#[derive(Debug)]
pub(crate) struct Meter {
    budget: Budget,
    started: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    spent: Spent,
    waited: Duration,
    waiting_since: Option<Instant>,
}

impl Meter {
    pub(crate) fn new(budget: Budget, spent: Spent) -> Self {
        let state = State { spent, ..State::default() };
        Self { budget, started: Instant::now(), state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn restart(&mut self, spent: Spent) {
        self.lock().spent = spent;
    }

    pub(crate) fn spent(&self) -> Spent {
        self.lock().spent
    }

    /// Time in waits for the endpoint, a wait that goes on included.
    pub(crate) fn waited(&self) -> Duration {
        let state = self.lock();
        state.waited + state.waiting_since.map(|since| since.elapsed()).unwrap_or_default()
    }

    /// Counts what a go cost, delivered or not, and the step if it was.
    pub(crate) fn charge(&self, usage: &Usage, cost_usd: Option<f64>, delivered: bool) {
        let mut state = self.lock();
        state.spent.steps += u64::from(delivered);
        state.spent.input_tokens += usage.input;
        state.spent.output_tokens += usage.output;
        state.spent.cached_tokens += usage.cached;
        state.spent.estimated |= usage.estimated;
        state.spent.cost_usd += cost_usd.unwrap_or_default();
    }

    /// From now to the drop of the guard the trial waits for the endpoint.
    pub(crate) fn wait(&self) -> Waiting<'_> {
        self.lock().waiting_since = Some(Instant::now());
        Waiting(self)
    }

    /// The first limit that is reached, in the order of [`BudgetKind`].
    pub(crate) fn reached(&self) -> Option<BudgetKind> {
        let (spent, budget) = (self.spent(), &self.budget);
        let total = spent.input_tokens + spent.output_tokens;
        let over = |limit: Option<u64>, have: u64| limit.is_some_and(|limit| have >= limit);
        let gone = |left: Option<Duration>| left.is_some_and(|left| left.is_zero());
        let checks = [
            (BudgetKind::Steps, over(budget.steps, spent.steps)),
            (BudgetKind::InputTokens, over(budget.input_tokens, spent.input_tokens)),
            (BudgetKind::OutputTokens, over(budget.output_tokens, spent.output_tokens)),
            (BudgetKind::TotalTokens, over(budget.total_tokens, total)),
            (BudgetKind::Cost, budget.cost_usd.is_some_and(|limit| spent.cost_usd >= limit)),
            (BudgetKind::Wall, gone(self.wall_left())),
            (BudgetKind::Working, gone(self.working_left())),
        ];
        checks.into_iter().find(|(_, reached)| *reached).map(|(kind, _)| kind)
    }

    /// Time to the wall limit.
    pub(crate) fn wall_left(&self) -> Option<Duration> {
        let limit = self.budget.wall_seconds.map(seconds)?;
        Some(limit.saturating_sub(self.started.elapsed()))
    }

    /// Working time to the limit of it.
    pub(crate) fn working_left(&self) -> Option<Duration> {
        let limit = self.budget.working_seconds.map(seconds)?;
        let worked = self.started.elapsed().saturating_sub(self.waited());
        Some(limit.saturating_sub(worked))
    }
}

/// A wait that goes on. It is a guard because a wait may be cut by dropping the ask.
pub(crate) struct Waiting<'a>(&'a Meter);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if let Some(since) = state.waiting_since.take() {
            state.waited += since.elapsed();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proctor_types::{Budget, BudgetKind, Spent, Usage};

    use super::Meter;

    fn usage(input: u64, output: u64) -> Usage {
        Usage { input, output, ..Usage::default() }
    }

    #[tokio::test]
    async fn each_limit_is_reached_by_its_own_count() {
        let one = |set: fn(&mut Budget)| {
            let mut budget = Budget::default();
            set(&mut budget);
            Meter::new(budget, Spent::default())
        };
        let cases = [
            (one(|b| b.steps = Some(2)), BudgetKind::Steps),
            (one(|b| b.input_tokens = Some(20)), BudgetKind::InputTokens),
            (one(|b| b.output_tokens = Some(10)), BudgetKind::OutputTokens),
            (one(|b| b.total_tokens = Some(30)), BudgetKind::TotalTokens),
            (one(|b| b.cost_usd = Some(0.5)), BudgetKind::Cost),
        ];
        for (meter, kind) in cases {
            meter.charge(&usage(10, 5), Some(0.25), true);
            assert_eq!(meter.reached(), None, "{kind}");
            meter.charge(&usage(10, 5), Some(0.25), true);
            assert_eq!(meter.reached(), Some(kind));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waits_are_wall_time_and_not_working_time() {
        let budget =
            Budget { wall_seconds: Some(10.0), working_seconds: Some(5.0), ..Budget::default() };
        let meter = Meter::new(budget, Spent::default());
        let waiting = meter.wait();
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(meter.waited(), Duration::from_secs(4), "a wait that goes on counts");
        drop(waiting);
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(meter.reached(), None);
        assert_eq!(meter.working_left(), Some(Duration::from_secs(1)));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(meter.reached(), Some(BudgetKind::Working));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(meter.reached(), Some(BudgetKind::Wall));
    }
}
