//! Tracks what a trial has spent. Limits are checked only here and in `admission.rs`.

use std::{fmt, sync::Arc, time::Duration};

use proctor_types::{Budget, BudgetKind, BudgetScope, RequestWaits, SharedLimits, Spending, Usage};

use crate::{
    PriorUsage,
    clock::Clock,
    retry::seconds,
    scope::Scope,
    shared::{self, SharedLimit},
};

/// Measures a trial against its limits: its own and shared limits on steps, tokens and cost, and
/// its own limits on time. The clock starts when the meter is created.
#[derive(Debug)]
pub struct Meter {
    budget: Budget,
    pub(crate) clock: Clock,
    pub(crate) own_scope: Arc<Scope>,
    /// The meters that the trial shares with other trials. All trials lock them in the same order,
    /// which prevents deadlocks.
    pub(crate) shared_meters: Vec<SharedMeter>,
}

/// Measures the trials of an arm or a run against the limits that they share. Clones refer to the
/// same meter.
#[derive(Clone)]
pub struct SharedMeter {
    pub(crate) scope: Arc<Scope>,
    /// The same limits across processes, if they are shared.
    pub(crate) limit: Option<Arc<dyn SharedLimit>>,
}

impl fmt::Debug for SharedMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedMeter")
            .field(&self.scope.scope)
            .field(&self.scope.spending())
            .field(&self.limit)
            .finish()
    }
}

impl SharedMeter {
    /// Creates a meter. `spending` is the spending of earlier invocations of the runtime.
    pub fn new(scope: BudgetScope, limits: &SharedLimits, spending: Spending) -> Self {
        Self { scope: Arc::new(Scope::new(scope, limits.to_budget(), spending)), limit: None }
    }

    /// Shares the limits with other processes. `limit` tracks what all of them spend.
    #[must_use]
    pub fn with_shared_limit(mut self, limit: Arc<dyn SharedLimit>) -> Self {
        self.limit = Some(limit);
        self
    }

    pub fn scope(&self) -> BudgetScope {
        self.scope.scope
    }

    pub fn spending(&self) -> Spending {
        self.scope.spending()
    }

    /// Returns the limit that has been reached, if any. Once a limit is reached, no request of any
    /// trial is admitted.
    pub fn reached_limit(&self) -> Option<BudgetKind> {
        let reached = || self.limit.as_ref()?.reached_limit();
        self.scope.reached_limit().or_else(|| reached().and_then(|name| shared::budget_kind(&name)))
    }
}

impl Meter {
    pub fn new(budget: Budget) -> Self {
        let own_scope =
            Arc::new(Scope::new(BudgetScope::Trial, budget.clone(), Spending::default()));
        Self { budget, clock: Clock::start(), own_scope, shared_meters: Vec::new() }
    }

    /// Continues an interrupted trial. Its earlier usage counts toward the limits, except for the
    /// time that was lost to the endpoint: that loss may have ended the earlier try, and the model
    /// did not cause it.
    #[must_use]
    pub fn resume_from(mut self, prior_usage: &PriorUsage) -> Self {
        self.own_scope.set_spending(prior_usage.spending);
        self.clock = Clock::resume_from(prior_usage);
        self
    }

    /// Adds limits that the trial shares with others.
    #[must_use]
    pub fn with_shared_meters(
        mut self,
        shared_meters: impl IntoIterator<Item = SharedMeter>,
    ) -> Self {
        self.shared_meters.extend(shared_meters);
        self
    }

    pub(crate) fn set_spending(&self, spending: Spending) {
        self.own_scope.set_spending(spending);
    }

    /// Returns the trial's own limits.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    pub fn spending(&self) -> Spending {
        self.own_scope.spending()
    }

    /// Returns the steps so far: delivered responses in the main conversation.
    pub fn steps(&self) -> u64 {
        self.own_scope.spending().steps
    }

    /// Returns the time spent waiting for the endpoint and for shared limits, including a wait in
    /// progress.
    pub fn wait_time(&self) -> Duration {
        self.clock.wait_time()
    }

    /// Returns the total waits of all requests by reason, without a wait in progress. Overlapping
    /// waits are each counted in full.
    pub fn wait_totals(&self) -> RequestWaits {
        self.clock.wait_totals()
    }

    /// Notes that a tool starts to run. Call [`Self::note_tool_end`] once for each start.
    pub fn note_tool_start(&self) {
        self.clock.note_tool_start();
    }

    pub fn note_tool_end(&self) {
        self.clock.note_tool_end();
    }

    /// Returns the total time spent in tools.
    pub fn tool_time(&self) -> Duration {
        self.clock.tool_time()
    }

    /// Resolves when a running tool must stop because the limit on wall time or on tool time is
    /// reached. The limit on working time is checked before the next request instead.
    pub async fn wait_for_tool_limit(&self) -> BudgetKind {
        let tools = async {
            match self.budget.tool_seconds.map(seconds) {
                Some(limit) => self.clock.wait_for_tool_time(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.wait_for_wall_limit() => BudgetKind::Wall,
            () = tools => BudgetKind::Tools,
        }
    }

    /// Counts a step of a scaffold that does not call a model.
    pub fn count_step(&self) {
        self.own_scope.count_step();
    }

    pub(crate) fn count_grace_response(
        &self,
        usage: &Usage,
        cost_usd: Option<f64>,
        is_delivered: bool,
    ) {
        self.own_scope.count_grace_response(usage, cost_usd, is_delivered);
    }

    /// Returns the first of the trial's own limits that has been reached. Limits on steps, tokens
    /// and cost come before time limits, each group in the order of [`BudgetKind`].
    pub fn reached_limit(&self) -> Option<BudgetKind> {
        self.own_scope.reached_limit().or_else(|| self.reached_time_limit())
    }

    /// Whether this spending reaches the trial's own limit of the kind.
    pub(crate) fn reaches_limit(&self, kind: BudgetKind, spending: &Spending) -> bool {
        self.own_scope.reaches_limit(kind, spending)
    }

    pub(crate) fn reached_time_limit(&self) -> Option<BudgetKind> {
        let gone = |left: Option<Duration>| left.is_some_and(|left| left.is_zero());
        let checks = [
            (BudgetKind::Wall, gone(self.remaining_wall_time())),
            (BudgetKind::Working, gone(self.remaining_working_time())),
            (BudgetKind::Tools, gone(self.remaining_tool_time())),
        ];
        checks.into_iter().find(|(_, reached)| *reached).map(|(kind, _)| kind)
    }

    /// Returns the time left until the wall limit. Time that is lost to the endpoint extends the
    /// limit, at most by the limit itself.
    pub fn remaining_wall_time(&self) -> Option<Duration> {
        let limit = self.budget.wall_seconds.map(seconds)?;
        Some(limit.saturating_sub(self.clock.wall_time(limit)))
    }

    /// Returns the working time left until its limit. Time that is lost to the endpoint extends the
    /// limit, at most by the limit itself.
    pub fn remaining_working_time(&self) -> Option<Duration> {
        let limit = self.budget.working_seconds.map(seconds)?;
        Some(limit.saturating_sub(self.clock.working_time(limit)))
    }

    /// Resolves when the wall limit is reached.
    pub(crate) async fn wait_for_wall_limit(&self) {
        wait_until_used_up(|| self.remaining_wall_time()).await;
    }

    /// Resolves when the working limit is reached, if no request waits in the meantime.
    pub(crate) async fn wait_for_working_limit(&self) {
        wait_until_used_up(|| self.remaining_working_time()).await;
    }

    /// Returns the time in tools left until its limit.
    pub fn remaining_tool_time(&self) -> Option<Duration> {
        let limit = self.budget.tool_seconds.map(seconds)?;
        Some(limit.saturating_sub(self.clock.tool_time()))
    }
}

/// How often a limit is checked if less time than this is left, and the time left does not shrink
/// because the trial is losing time to the endpoint.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Resolves when no time is left. The time left may grow in the meantime. If it is `None`, there is
/// no limit.
async fn wait_until_used_up(remaining: impl Fn() -> Option<Duration>) {
    let Some(left) = remaining() else { return std::future::pending().await };
    tokio::time::sleep(left).await;
    while let Some(left) = remaining().filter(|left| !left.is_zero()) {
        tokio::time::sleep(left.max(CHECK_INTERVAL)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use std::sync::Arc;

    use proctor_types::{Budget, BudgetKind, RequestClass, Usage};

    use super::{Meter, PriorUsage, RequestWaits};
    use crate::{admission::AdmissionRequest, scope::MaxUsage};

    async fn charge(meter: &Arc<Meter>) {
        let class = RequestClass::Main;
        let need = MaxUsage {
            class,
            is_from_sub_agent: false,
            input_tokens: 10,
            output_tokens: Some(5),
            cost_usd: 0.25,
        };
        let admission = meter
            .admit(
                AdmissionRequest { max_usage: need, shared_max_usage: need, is_grace: false },
                &[],
                &|_| {},
            )
            .await
            .expect("some budget is left");
        let usage = Usage { input: 10, output: 5, ..Usage::default() };
        admission.settle(&usage, Some(0.25), true);
    }

    #[tokio::test]
    async fn reached_limit_returns_the_kind_of_each_limit() {
        let one = |set: fn(&mut Budget)| {
            let mut budget = Budget::default();
            set(&mut budget);
            Arc::new(Meter::new(budget))
        };
        let cases = [
            (one(|b| b.steps = Some(2)), BudgetKind::Steps),
            (one(|b| b.main_steps = Some(2)), BudgetKind::MainSteps),
            (one(|b| b.input_tokens = Some(20)), BudgetKind::InputTokens),
            (one(|b| b.output_tokens = Some(10)), BudgetKind::OutputTokens),
            (one(|b| b.total_tokens = Some(30)), BudgetKind::TotalTokens),
            (one(|b| b.cost_usd = Some(0.5)), BudgetKind::Cost),
        ];
        for (meter, kind) in cases {
            charge(&meter).await;
            assert_eq!(meter.reached_limit(), None, "{kind}");
            charge(&meter).await;
            assert_eq!(meter.reached_limit(), Some(kind));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn resumed_meter_excludes_time_that_the_endpoint_lost() {
        let second = Duration::from_secs(1);
        let budget =
            Budget { wall_seconds: Some(20.0), working_seconds: Some(9.0), ..Budget::default() };
        let used = PriorUsage {
            elapsed: 12 * second,
            wait_time: 3 * second,
            wait_totals: RequestWaits { retries: 3.0, ..RequestWaits::default() },
            lost_time: 5 * second,
            ..PriorUsage::default()
        };
        let meter = Meter::new(budget).resume_from(&used);
        assert_eq!(
            meter.remaining_wall_time(),
            Some(16 * second),
            "of 12 s, 5 s of failed attempts and 3 s of waits are not charged"
        );
        assert_eq!(meter.remaining_working_time(), Some(5 * second));
    }

    #[tokio::test(start_paused = true)]
    async fn lost_time_extends_time_limits_at_most_once() {
        let second = Duration::from_secs(1);
        // (lost seconds, how long the trial runs)
        for (lost, total) in [(0, 10), (4, 14), (10, 20), (300, 20)] {
            let budget = Budget { wall_seconds: Some(10.0), ..Budget::default() };
            let meter = Meter::new(budget);
            let begun = tokio::time::Instant::now();
            let losing = async {
                tokio::time::sleep(3 * second).await;
                let wait = meter.clock.lost_time.start_wait();
                tokio::time::sleep(lost * second).await;
                drop(wait);
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = meter.wait_for_wall_limit() => {}
                () = losing => {}
            }
            let ran = begun.elapsed();
            assert!(ran >= total * second && ran < total * second + second / 10, "{lost}: {ran:?}");
            assert_eq!(meter.reached_limit(), Some(BudgetKind::Wall));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failed_attempts_are_not_working_time() {
        let second = Duration::from_secs(1);
        let budget = Budget { working_seconds: Some(5.0), ..Budget::default() };
        let meter = Meter::new(budget);
        let attempt = meter.clock.lost_time.start_attempt(|| None);
        tokio::time::advance(4 * second).await;
        assert_eq!(meter.remaining_working_time(), Some(second), "it may still be a slow response");
        attempt.fail("503 overloaded");
        assert_eq!(meter.remaining_working_time(), Some(5 * second));
        let waiting = meter.clock.start_wait();
        let lost = meter.clock.lost_time.start_wait();
        tokio::time::advance(3 * second).await;
        drop((waiting, lost));
        assert_eq!(meter.remaining_working_time(), Some(5 * second), "a wait is excluded once");
    }

    #[tokio::test(start_paused = true)]
    async fn waits_count_as_wall_time_but_not_working_time() {
        let budget =
            Budget { wall_seconds: Some(10.0), working_seconds: Some(5.0), ..Budget::default() };
        let meter = Meter::new(budget);
        let waiting = meter.clock.start_wait();
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(meter.wait_time(), Duration::from_secs(4), "a wait in progress counts");
        drop(waiting);
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(meter.reached_limit(), None);
        assert_eq!(meter.remaining_working_time(), Some(Duration::from_secs(1)));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(meter.reached_limit(), Some(BudgetKind::Working));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(meter.reached_limit(), Some(BudgetKind::Wall));
    }
}
