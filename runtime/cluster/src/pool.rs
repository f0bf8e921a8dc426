//! Limits that all workers of a run share.
//!
//! Before a worker sends a request, it reserves the amounts that the request may use. A limit's
//! state lists the amounts that every worker has spent and reserved. A reservation is granted if
//! the total stays within the limit. The reservations of a dead worker are released, but its
//! spending still counts.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

use crate::{Membership, SHARES_DIR, register::Register};

/// Amounts by name, such as the numbers of tokens and requests.
pub type Amounts = BTreeMap<String, u64>;

/// The amounts that all workers may use together.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    pub maximum: Amounts,
    /// How long usage counts toward the limit. `None` means forever.
    pub window: Option<Duration>,
}

/// The reason why a reservation failed.
#[derive(Debug)]
pub enum ReservationError {
    /// The limit with this name is used up.
    LimitExhausted(String),
    /// The directory cannot be read or written.
    Io(io::Error),
}

#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
struct PoolAccounts {
    /// The amounts that were spent before workers shared the limit.
    before: Amounts,
    workers: BTreeMap<String, Account>,
}

/// The account of one worker. Only that worker changes it.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
struct Account {
    #[serde(default, skip_serializing_if = "Amounts::is_empty")]
    spent: Amounts,
    /// The worker's reservations, by reservation number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    reserved: BTreeMap<u64, PendingReservation>,
    /// Usage that counts only for the window's duration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    recent: Vec<WindowedUsage>,
}

#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
struct PendingReservation {
    amounts: Amounts,
    /// Whether the request's usage is unknown, so that no other request may run at the same time.
    #[serde(default)]
    alone: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct WindowedUsage {
    reservation: u64,
    /// Milliseconds since the epoch, by the file server's clock.
    at: u64,
    amounts: Amounts,
}

/// One shared limit, as used by one worker.
#[derive(Debug)]
pub struct Pool {
    inner: Arc<PoolInner>,
    /// Queue of this worker's waiting requests. Only the first one polls.
    queue: tokio::sync::Mutex<()>,
    write_requests: Option<mpsc::Sender<()>>,
}

#[derive(Debug)]
struct PoolInner {
    membership: Arc<Membership>,
    register: Register<PoolAccounts>,
    limits: Limits,
    initial_accounts: PoolAccounts,
    own_account: Mutex<OwnAccount>,
    /// Serializes this worker's changes.
    write_lock: Mutex<()>,
}

#[derive(Debug, Default)]
struct OwnAccount {
    account: Account,
    last_reservation: u64,
}

/// Interval in milliseconds between two attempts to reserve from a limit that has no room. The
/// interval is randomized, so that workers do not poll at the same time.
const POLL_INTERVAL_MS: std::ops::RangeInclusive<u64> = 200..=600;
/// How long the file server may be unavailable before a reservation fails.
const MAX_SERVER_OUTAGE: Duration = Duration::from_secs(120);

enum Grant {
    Granted,
    Wait,
    LimitExhausted(String),
}

impl Pool {
    /// Opens a limit. `name` must be a valid directory name. `prior_spending` contains the amounts
    /// that were spent before workers shared the limit. It is used only if this worker is the
    /// first.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read or written.
    pub fn open(
        membership: &Arc<Membership>,
        name: &str,
        limits: Limits,
        prior_spending: Amounts,
    ) -> io::Result<Self> {
        let folder = membership.run_dir().join(SHARES_DIR).join(Path::new(name));
        let first = PoolAccounts { before: prior_spending, ..PoolAccounts::default() };
        let register = Register::open(&folder, &first)?;
        let (own, writing) = (Mutex::default(), Mutex::default());
        let membership = Arc::clone(membership);
        let shared = Arc::new(PoolInner {
            membership,
            register,
            limits,
            initial_accounts: first,
            own_account: own,
            write_lock: writing,
        });
        let (changed, changes) = mpsc::channel::<()>();
        let writer = Arc::downgrade(&shared);
        // The thread ends when the last sender has been dropped.
        thread::Builder::new().name("shared limit".into()).spawn(move || {
            while changes.recv().is_ok() {
                // One write covers all pending changes.
                while changes.try_recv().is_ok() {}
                if let Some(shared) = writer.upgrade() {
                    shared.write_account();
                }
            }
        })?;
        Ok(Self {
            inner: shared,
            queue: tokio::sync::Mutex::default(),
            write_requests: Some(changed),
        })
    }

    /// Waits until the amounts fit into the limit, together with all amounts that workers have
    /// spent and reserved, and reserves them. If `must_run_alone` is set, the usage is unknown, and
    /// the call waits until nothing else is reserved. A request that does not fit into the rest of
    /// the limit waits until nothing else is reserved, and then runs alone. As a result, at most
    /// one response exceeds the limit.
    ///
    /// # Errors
    /// Returns an error if a limit is used up, or if the directory cannot be read or written for
    /// longer than `MAX_SERVER_OUTAGE`.
    pub async fn reserve(
        &self,
        amounts: &Amounts,
        must_run_alone: bool,
    ) -> Result<PoolReservation, ReservationError> {
        let _turn = self.queue.lock().await;
        let mut failing: Option<tokio::time::Instant> = None;
        loop {
            let (shared, wanted) = (Arc::clone(&self.inner), amounts.clone());
            let changed = self.write_requests.clone();
            // If the caller drops this future, the result of the blocking task is dropped too,
            // which releases the reservation.
            let tried = tokio::task::spawn_blocking(move || {
                let (grant, reservation) = shared.try_reserve(&wanted, must_run_alone)?;
                let share = matches!(grant, Grant::Granted).then(|| PoolReservation {
                    pool: shared,
                    reservation,
                    write_requests: changed,
                    usage: None,
                });
                Ok::<_, io::Error>((grant, share))
            });
            let tried =
                tried.await.map_err(|error| ReservationError::Io(io::Error::other(error)))?;
            match tried {
                Ok((_, Some(share))) => return Ok(share),
                Ok((Grant::LimitExhausted(limit), None)) => {
                    return Err(ReservationError::LimitExhausted(limit));
                }
                Ok((_, None)) => failing = None,
                Err(error) => {
                    let since = *failing.get_or_insert_with(tokio::time::Instant::now);
                    if since.elapsed() > MAX_SERVER_OUTAGE {
                        return Err(ReservationError::Io(error));
                    }
                }
            }
            tokio::time::sleep(Duration::from_millis(fastrand::u64(POLL_INTERVAL_MS))).await;
        }
    }

    /// Returns the limit that is used up, if any. Returns `None` if the directory cannot be read.
    pub fn exhausted_limit(&self) -> Option<String> {
        let state = self.inner.register.read_state(&self.inner.initial_accounts).ok()?;
        exhausted_limit(&self.inner.limits, &total_spending(&state))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        drop(self.write_requests.take());
        // The thread might not have written the last change yet.
        self.inner.write_account();
    }
}

impl PoolInner {
    fn lock_own_account(&self) -> MutexGuard<'_, OwnAccount> {
        self.own_account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn worker_id(&self) -> &str {
        &self.membership.member().id
    }

    fn try_reserve(&self, requested: &Amounts, must_run_alone: bool) -> io::Result<(Grant, u64)> {
        let _writing = self.write_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut account, reservation) = {
            let mut own = self.lock_own_account();
            own.last_reservation += 1;
            (own.account.clone(), own.last_reservation)
        };
        let now = unix_millis(self.membership.server_time()?);
        drop_expired_usage(&mut account, &self.limits, now);
        let limits = &self.limits;
        let granted = |state: &mut PoolAccounts, dead: &BTreeSet<String>| {
            for (id, other) in &mut state.workers {
                drop_expired_usage(other, limits, now);
                if dead.contains(id) {
                    other.reserved.clear();
                }
            }
            state.workers.insert(self.worker_id().to_owned(), account.clone());
            state.workers.retain(|_, account| *account != Account::default());
            decide_grant(limits, state, requested, must_run_alone)
        };
        let mut state = self.register.read_state(&self.initial_accounts)?;
        let dead = match granted(&mut state, &BTreeSet::new()) {
            // Check for dead workers only if the request has to wait. Each check needs two file
            // system calls per worker, which would be two thousand calls for a thousand workers.
            Grant::Wait => self.dead_workers(&state)?,
            Grant::Granted | Grant::LimitExhausted(_) => BTreeSet::new(),
        };
        let grant = self.register.update(&self.initial_accounts, |state| {
            let grant = granted(state, &dead);
            if matches!(grant, Grant::Granted) {
                let entry = state.workers.entry(self.worker_id().to_owned()).or_default();
                let amounts = requested.clone();
                match limits.window {
                    Some(_) => entry.recent.push(WindowedUsage { reservation, at: now, amounts }),
                    None => {
                        entry.reserved.insert(
                            reservation,
                            PendingReservation { amounts, alone: must_run_alone },
                        );
                    }
                }
            }
            grant
        })?;
        if matches!(grant, Grant::Granted) {
            let (mut own, amounts) = (self.lock_own_account(), requested.clone());
            match limits.window {
                Some(_) => own.account.recent.push(WindowedUsage { reservation, at: now, amounts }),
                None => {
                    own.account
                        .reserved
                        .insert(reservation, PendingReservation { amounts, alone: must_run_alone });
                }
            }
            drop_expired_usage(&mut own.account, limits, now);
        }
        Ok((grant, reservation))
    }

    /// Returns the dead workers whose reservations are part of this state.
    fn dead_workers(&self, state: &PoolAccounts) -> io::Result<BTreeSet<String>> {
        let mut dead = BTreeSet::new();
        for (id, account) in &state.workers {
            if id != self.worker_id()
                && !account.reserved.is_empty()
                && !self.membership.is_live(id)?
            {
                dead.insert(id.clone());
            }
        }
        Ok(dead)
    }

    /// Writes this worker's account.
    fn write_account(&self) {
        let _writing = self.write_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let account = self.lock_own_account().account.clone();
        // Ignore a failure, because the next update includes this change.
        let _ = self.register.update(&self.initial_accounts, |state| {
            state.workers.insert(self.worker_id().to_owned(), account.clone());
        });
    }

    /// Replaces a reservation with the request's actual usage, if there was any.
    fn settle(&self, reservation: u64, usage: Option<&Amounts>) {
        let mut own = self.lock_own_account();
        own.account.reserved.remove(&reservation);
        let Some(used) = usage else { return };
        match self.limits.window {
            None => add_amounts(&mut own.account.spent, used),
            Some(_) => {
                let mut recent = own.account.recent.iter_mut();
                if let Some(one) = recent.find(|one| one.reservation == reservation) {
                    one.amounts = used.clone();
                }
            }
        }
    }
}

/// The reservation of one request. Dropping it releases the reserved amounts. If the limit has a
/// window, the request still counts, because it may have been sent.
#[derive(Debug)]
pub struct PoolReservation {
    pool: Arc<PoolInner>,
    reservation: u64,
    write_requests: Option<mpsc::Sender<()>>,
    usage: Option<Amounts>,
}

impl PoolReservation {
    /// Replaces the reservation with the actual usage.
    pub fn settle(mut self, usage: Amounts) {
        self.usage = Some(usage);
    }
}

impl Drop for PoolReservation {
    fn drop(&mut self) {
        self.pool.settle(self.reservation, self.usage.as_ref());
        match &self.write_requests {
            Some(changed) if changed.send(()).is_ok() => {}
            // The pool and its writer thread have ended, so write the account here.
            _ => self.pool.write_account(),
        }
    }
}

/// Drops usage that is older than the window.
fn drop_expired_usage(account: &mut Account, limits: &Limits, now: u64) {
    if let Some(window) = limits.window {
        let window = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
        account.recent.retain(|one| one.at.saturating_add(window) > now);
    }
}

fn total_spending(state: &PoolAccounts) -> Amounts {
    let mut sum = state.before.clone();
    for account in state.workers.values() {
        add_amounts(&mut sum, &account.spent);
        for one in &account.recent {
            add_amounts(&mut sum, &one.amounts);
        }
    }
    sum
}

fn decide_grant(
    limits: &Limits,
    state: &PoolAccounts,
    requested: &Amounts,
    must_run_alone: bool,
) -> Grant {
    let spent = total_spending(state);
    if limits.window.is_none()
        && let Some(limit) = exhausted_limit(limits, &spent)
    {
        return Grant::LimitExhausted(limit);
    }
    let reserved: Vec<&PendingReservation> =
        state.workers.values().flat_map(|account| account.reserved.values()).collect();
    // If the limit has a window, a request that does not fit waits until earlier usage expires.
    let is_first = reserved.is_empty() && (limits.window.is_none() || spent.is_empty());
    if is_first {
        return Grant::Granted;
    }
    if must_run_alone || reserved.iter().any(|one| one.alone) {
        return Grant::Wait;
    }
    let mut sum = spent;
    for one in reserved {
        add_amounts(&mut sum, &one.amounts);
    }
    add_amounts(&mut sum, requested);
    let over = |(name, most): (&String, &u64)| sum.get(name).is_some_and(|sum| sum > most);
    if limits.maximum.iter().any(over) { Grant::Wait } else { Grant::Granted }
}

fn exhausted_limit(limits: &Limits, spending: &Amounts) -> Option<String> {
    if limits.window.is_some() {
        return None;
    }
    // Ignore amounts that are only reserved and never spent, such as requests in flight.
    let is_reached =
        |(name, most): &(&String, &u64)| spending.get(*name).is_some_and(|it| it >= *most);
    limits.maximum.iter().find(is_reached).map(|(name, _)| name.clone())
}

fn add_amounts(sum: &mut Amounts, addend: &Amounts) {
    for (name, amount) in addend {
        let sum = sum.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*amount);
    }
}

fn unix_millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use tokio::time::{Instant, timeout};

    use super::*;
    use crate::{Member, WORKERS_DIR};

    fn join_worker(run_dir: &Path) -> Arc<Membership> {
        let member = Member::current("node", "0.1.0", None, Duration::from_secs(30));
        Arc::new(Membership::join(run_dir, member).unwrap())
    }

    fn amounts(name: &str, amount: u64) -> Amounts {
        Amounts::from([(name.to_owned(), amount)])
    }

    fn open_pool(membership: &Arc<Membership>, limit: u64, window: Option<Duration>) -> Pool {
        let limits = Limits { maximum: amounts("cost", limit), window };
        Pool::open(membership, "run", limits, Amounts::new()).unwrap()
    }

    const POLL_TIMEOUT: Duration = Duration::from_secs(2);

    #[tokio::test(flavor = "multi_thread")]
    async fn workers_share_a_limit_that_only_the_last_response_may_exceed() {
        let run = tempfile::tempdir().unwrap();
        let (a, b) = (join_worker(run.path()), join_worker(run.path()));
        let (one, other) = (open_pool(&a, 100, None), open_pool(&b, 100, None));
        let first = one.reserve(&amounts("cost", 60), false).await.unwrap();
        let second = other.reserve(&amounts("cost", 40), false).await.unwrap();
        let third = amounts("cost", 10);
        assert!(
            timeout(POLL_TIMEOUT, other.reserve(&third, false)).await.is_err(),
            "everything is reserved"
        );
        first.settle(amounts("cost", 30));
        let third = timeout(POLL_TIMEOUT, other.reserve(&third, false)).await.unwrap().unwrap();
        third.settle(amounts("cost", 10));
        second.settle(amounts("cost", 40));
        // Of 100, 80 are spent. A request that does not fit runs alone.
        let last =
            timeout(POLL_TIMEOUT, one.reserve(&amounts("cost", 50), false)).await.unwrap().unwrap();
        last.settle(amounts("cost", 45));
        let refused =
            timeout(POLL_TIMEOUT, other.reserve(&amounts("cost", 1), false)).await.unwrap();
        assert!(matches!(refused, Err(ReservationError::LimitExhausted(limit)) if limit == "cost"));
        assert_eq!(other.exhausted_limit().as_deref(), Some("cost"));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn dead_worker_reservations_are_released_but_spending_counts() {
        let run = tempfile::tempdir().unwrap();
        let (a, b) = (join_worker(run.path()), join_worker(run.path()));
        let (one, other) = (open_pool(&a, 100, None), open_pool(&b, 100, None));
        one.reserve(&amounts("cost", 20), false).await.unwrap().settle(amounts("cost", 20));
        let _lost = one.reserve(&amounts("cost", 70), false).await.unwrap();
        let wanted = amounts("cost", 50);
        assert!(timeout(POLL_TIMEOUT, other.reserve(&wanted, false)).await.is_err());
        let path = run.path().join(WORKERS_DIR).join(format!("{}.json", a.member().id));
        let old = SystemTime::now() - Duration::from_secs(60);
        File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
        let share = timeout(POLL_TIMEOUT, other.reserve(&wanted, false)).await.unwrap().unwrap();
        share.settle(amounts("cost", 79));
        assert!(
            timeout(POLL_TIMEOUT, other.reserve(&wanted, false)).await.unwrap().is_ok(),
            "1 is left"
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn window_limits_the_total_of_all_workers() {
        let run = tempfile::tempdir().unwrap();
        let window = Duration::from_secs(3);
        let workers: Vec<_> = (0..3).map(|_| join_worker(run.path())).collect();
        let pools: Vec<_> = workers.iter().map(|it| open_pool(it, 4, Some(window))).collect();
        let began = Instant::now();
        let mut left = Vec::new();
        for number in 0..9 {
            let share = pools[number % 3].reserve(&amounts("cost", 1), false).await.unwrap();
            share.settle(amounts("cost", 1));
            left.push(began.elapsed());
        }
        for (early, late) in left.iter().zip(&left[4..]) {
            assert!(*late - *early >= window - Duration::from_millis(500), "{left:?}");
        }
        assert!(left[8] < window * 2 + Duration::from_secs(3), "{left:?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn request_with_unknown_usage_runs_alone() {
        let run = tempfile::tempdir().unwrap();
        let (a, b) = (join_worker(run.path()), join_worker(run.path()));
        let (one, other) = (open_pool(&a, 100, None), open_pool(&b, 100, None));
        let small = amounts("cost", 1);
        let first = one.reserve(&small, true).await.unwrap();
        assert!(timeout(POLL_TIMEOUT, other.reserve(&small, false)).await.is_err());
        drop(first);
        let second = timeout(POLL_TIMEOUT, other.reserve(&small, false)).await.unwrap().unwrap();
        assert!(timeout(POLL_TIMEOUT, one.reserve(&small, true)).await.is_err());
        drop(second);
        assert!(timeout(POLL_TIMEOUT, one.reserve(&small, true)).await.unwrap().is_ok());
    }
}
