//! Limits that trials share. The spending of earlier invocations counts toward these limits.

use std::{collections::BTreeMap, io, sync::Arc, time::Duration};

use async_trait::async_trait;
use proctor_cluster::{Limits, Pool, PoolReservation, ReservationError};
use proctor_gateway::{
    Amounts, EndpointRates, REQUESTS, RatePolicy, Reservation, ReserveError, SharedLimit,
    SharedMeter, SharedRates, TOKENS, limits_by_name, spent_by_name,
};
use proctor_record::{RunDir, read_trial_spending};
use proctor_types::{
    Arm, ArmId, BudgetKind, BudgetScope, Fault, SharedLimits, Spending, path_component,
};

use crate::{Plan, error::record_fault};

/// Margin that is added to the rate window, because Proctor counts a request shortly before the
/// endpoint does. Without the margin, the endpoint could count one more request in its own window.
const RATE_WINDOW_MARGIN: Duration = Duration::from_secs(1);

/// Meters for the shared limits of a run and its arms.
#[derive(Debug, Default)]
pub struct SharedMeters {
    run_meter: Option<SharedMeter>,
    arm_meters: BTreeMap<ArmId, SharedMeter>,
}

impl SharedMeters {
    /// Creates the meters that the arms' budgets need. Adds up the spending in the journals of
    /// every try. Discarded tries are included, because they were paid for.
    pub fn load(run: &RunDir, plan: &Plan) -> Result<Self, Fault> {
        let limited = |arm: &Arc<Arm>| arm.budget.run.is_some() || arm.budget.arm.is_some();
        if !plan.arms.iter().any(limited) {
            return Ok(Self::default());
        }
        let mut spent: BTreeMap<ArmId, Spending> = BTreeMap::new();
        for (id, _, arm) in plan.trials() {
            let paid = read_trial_spending(&run.trial_dir(&id)).map_err(record_fault)?;
            spent.entry(arm.id.clone()).or_default().merge(&paid);
        }
        let all = spent.values().fold(Spending::default(), |mut all, one| {
            all.merge(one);
            all
        });
        let mut meters = Self::default();
        if let Some(limits) = plan.arms.iter().find_map(|arm| arm.budget.run) {
            meters.run_meter = Some(create_meter(run, "run", BudgetScope::Run, &limits, all)?);
        }
        for arm in &plan.arms {
            let Some(limits) = arm.budget.arm else { continue };
            let spent = spent.get(&arm.id).copied().unwrap_or_default();
            let name = format!("arm-{}", path_component(arm.id.as_str()));
            let meter = create_meter(run, &name, BudgetScope::Arm, &limits, spent)?;
            meters.arm_meters.insert(arm.id.clone(), meter);
        }
        Ok(meters)
    }

    /// Returns the meters that a trial of the arm shares, in locking order.
    pub fn meters_for_arm(&self, arm: &ArmId) -> Vec<SharedMeter> {
        self.arm_meters.get(arm).into_iter().chain(&self.run_meter).cloned().collect()
    }

    /// Returns the shared limit that is used up, so that no further trial of the arm can start, if
    /// there is one.
    pub fn exhausted_limit(&self, arm: &ArmId) -> Option<(BudgetScope, BudgetKind)> {
        self.meters_for_arm(arm)
            .iter()
            .find_map(|meter| Some((meter.scope(), meter.reached_limit()?)))
    }
}

fn create_meter(
    run: &RunDir,
    name: &str,
    scope: BudgetScope,
    limits: &SharedLimits,
    spending: Spending,
) -> Result<SharedMeter, Fault> {
    let meter = SharedMeter::new(scope, limits, spending);
    if !run.is_shared() {
        return Ok(meter);
    }
    let most = limits_by_name(limits);
    Ok(meter.with_shared_limit(open_pool(
        run,
        name,
        Limits { maximum: most, window: None },
        spent_by_name(&spending),
    )?))
}

/// Returns the endpoint tables, extended by limits that all workers share.
///
/// # Errors
/// Fails if the run directory cannot be written.
pub fn shared_rates(
    run: &RunDir,
    tables: Vec<EndpointRates>,
    policy: RatePolicy,
) -> Result<Vec<(EndpointRates, SharedRates)>, Fault> {
    let mut shared = Vec::new();
    for (index, table) in tables.into_iter().enumerate() {
        let mut rates = SharedRates::default();
        if run.is_shared() {
            let of = |limits: &[(&str, Option<u64>)]| -> Amounts {
                let there =
                    |(name, limit): &(&str, Option<u64>)| Some(((*name).to_owned(), (*limit)?));
                limits.iter().filter_map(there).collect()
            };
            let in_flight = of(&[(REQUESTS, table.max_concurrent)]);
            if !in_flight.is_empty() {
                let limits = Limits { maximum: in_flight, window: None };
                let name = format!("in-flight-{index}");
                rates.in_flight_limit = Some(open_pool(run, &name, limits, Amounts::new())?);
            }
            let most =
                of(&[(REQUESTS, table.requests_per_minute), (TOKENS, table.tokens_per_minute)]);
            if !most.is_empty() {
                let window = Duration::try_from_secs_f64(policy.window_seconds);
                let window = window.map_err(record_fault)?.saturating_add(RATE_WINDOW_MARGIN);
                let limits = Limits { maximum: most, window: Some(window) };
                let name = format!("rate-{index}");
                rates.window_limit = Some(open_pool(run, &name, limits, Amounts::new())?);
            }
        }
        shared.push((table, rates));
    }
    Ok(shared)
}

fn open_pool(
    run: &RunDir,
    name: &str,
    limits: Limits,
    spent_amounts: Amounts,
) -> Result<Arc<dyn SharedLimit>, Fault> {
    let membership = run.ensure_membership().map_err(record_fault)?;
    let pool = Pool::open(&membership, name, limits, spent_amounts).map_err(shared_limits_fault)?;
    Ok(Arc::new(FolderLimit(pool)))
}

fn shared_limits_fault(error: io::Error) -> Fault {
    record_fault(error).context("the workers' shared limits")
}

/// A limit that workers share through the run directory.
#[derive(Debug)]
struct FolderLimit(Pool);

#[async_trait]
impl SharedLimit for FolderLimit {
    async fn reserve(
        &self,
        amounts: &Amounts,
        alone: bool,
    ) -> Result<Box<dyn Reservation>, ReserveError> {
        match self.0.reserve(amounts, alone).await {
            Ok(share) => Ok(Box::new(FolderReservation(share))),
            Err(ReservationError::LimitExhausted(name)) => Err(ReserveError::Reached(name)),
            Err(ReservationError::Io(error)) => {
                Err(ReserveError::Fault(shared_limits_fault(error)))
            }
        }
    }

    fn reached_limit(&self) -> Option<String> {
        self.0.exhausted_limit()
    }
}

#[derive(Debug)]
struct FolderReservation(PoolReservation);

impl Reservation for FolderReservation {
    fn settle(self: Box<Self>, used: Amounts) {
        self.0.settle(used);
    }
}
