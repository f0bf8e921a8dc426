//! What a trial has spent, and the one place where limits are checked.

use std::{sync::Arc, time::Duration};

use proctor_types::{Budget, BudgetKind, BudgetScope, Spent};

use crate::{
    Admission, AskError,
    clock::{Clock, Waiting},
    retry::seconds,
    scope::{Hold, Need, Scope},
};

/// A trial's limits on counts (its own, then those it shares) and on time.
#[derive(Debug)]
pub(crate) struct Meter {
    budget: Budget,
    clock: Clock,
    /// The trial's own first. Everyone holds in this order, so nobody waits in a circle.
    scopes: Vec<Arc<Scope>>,
}

impl Meter {
    pub(crate) fn new(budget: Budget) -> Self {
        let own = Scope::new(BudgetScope::Trial, budget.clone(), Spent::default());
        Self { budget, clock: Clock::start(), scopes: vec![Arc::new(own)] }
    }

    fn own(&self) -> Option<&Arc<Scope>> {
        self.scopes.first()
    }

    pub(crate) fn restart(&self, spent: Spent) {
        if let Some(own) = self.own() {
            own.restart(spent);
        }
    }

    pub(crate) fn spent(&self) -> Spent {
        self.own().map(|own| own.spent()).unwrap_or_default()
    }

    /// Time in waits for the endpoint, a wait that goes on included.
    pub(crate) fn waited(&self) -> Duration {
        self.clock.waited()
    }

    pub(crate) fn wait(&self) -> Waiting<'_> {
        self.clock.wait()
    }

    pub(crate) fn took_off(&self) {
        self.clock.took_off();
    }

    pub(crate) fn landed(&self) {
        self.clock.landed();
    }

    /// The first limit that is reached: those on the trial's counts and then those on its time, in
    /// the order of [`BudgetKind`].
    pub(crate) fn reached(&self) -> Option<BudgetKind> {
        self.own().and_then(|own| own.reached()).or_else(|| self.time_reached())
    }

    fn time_reached(&self) -> Option<BudgetKind> {
        let gone = |left: Option<Duration>| left.is_some_and(|left| left.is_zero());
        let checks = [
            (BudgetKind::Wall, gone(self.wall_left())),
            (BudgetKind::Working, gone(self.working_left())),
        ];
        checks.into_iter().find(|(_, reached)| *reached).map(|(kind, _)| kind)
    }

    /// Holds `need` in every scope, one after another. `shared` is what a scope of several trials
    /// holds.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        need: Need,
        shared: Need,
    ) -> Result<Admission, AskError> {
        let mut holds: Vec<Hold> = Vec::with_capacity(self.scopes.len());
        for scope in &self.scopes {
            let need = if scope.scope.is_trial() { need } else { shared };
            let held = scope.hold(need.clamped()).await;
            holds.push(held.map_err(|kind| match scope.scope {
                BudgetScope::Trial => AskError::Budget(kind),
                scope => AskError::SharedBudget { scope, kind },
            })?);
        }
        match self.time_reached() {
            Some(kind) => Err(AskError::Budget(kind)),
            None => Ok(Admission::new(Arc::clone(self), holds)),
        }
    }

    /// Time to the wall limit.
    pub(crate) fn wall_left(&self) -> Option<Duration> {
        let limit = self.budget.wall_seconds.map(seconds)?;
        Some(limit.saturating_sub(self.clock.elapsed()))
    }

    /// Working time to the limit of it.
    pub(crate) fn working_left(&self) -> Option<Duration> {
        let limit = self.budget.working_seconds.map(seconds)?;
        Some(limit.saturating_sub(self.clock.worked()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use std::sync::Arc;

    use proctor_types::{Budget, BudgetKind, RequestClass, Usage};

    use super::Meter;
    use crate::scope::Need;

    async fn charge(meter: &Arc<Meter>) {
        let need = Need { class: RequestClass::Main, input: 10, output: Some(5), cost_usd: 0.25 };
        let admission = meter.admit(need, need).await.expect("some is left");
        let usage = Usage { input: 10, output: 5, ..Usage::default() };
        admission.settle(&usage, Some(0.25), true);
    }

    #[tokio::test]
    async fn each_limit_is_reached_by_its_own_count() {
        let one = |set: fn(&mut Budget)| {
            let mut budget = Budget::default();
            set(&mut budget);
            Arc::new(Meter::new(budget))
        };
        let cases = [
            (one(|b| b.steps = Some(2)), BudgetKind::Steps),
            (one(|b| b.input_tokens = Some(20)), BudgetKind::InputTokens),
            (one(|b| b.output_tokens = Some(10)), BudgetKind::OutputTokens),
            (one(|b| b.total_tokens = Some(30)), BudgetKind::TotalTokens),
            (one(|b| b.cost_usd = Some(0.5)), BudgetKind::Cost),
        ];
        for (meter, kind) in cases {
            charge(&meter).await;
            assert_eq!(meter.reached(), None, "{kind}");
            charge(&meter).await;
            assert_eq!(meter.reached(), Some(kind));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waits_are_wall_time_and_not_working_time() {
        let budget =
            Budget { wall_seconds: Some(10.0), working_seconds: Some(5.0), ..Budget::default() };
        let meter = Meter::new(budget);
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
