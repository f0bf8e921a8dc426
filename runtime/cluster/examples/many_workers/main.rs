//! Simulates many workers that share a directory on a slow file server. Runs the workers' real
//! code.
//!
//! `cargo run --release -p proctor-cluster --example many_workers -- [WORKERS] [TRIALS] [LATENCY_MS] [CALLS_PER_SECOND]
//! [TRIAL_SECONDS] [SECONDS]`
//!
//! Prints how fast workers claim trials and make reservations in a shared limit, and how many file
//! system calls each claim and reservation needs. The crate's own modules are included by path, but
//! `disk` replaces the module that calls the file system.

#![expect(dead_code, reason = "the simulation uses only a part of each module")]
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a simulation prints, and stops at the first error"
)]

#[path = "../../src/claim_chain.rs"]
mod claim_chain;
#[path = "../../src/claims.rs"]
mod claims;
#[path = "../../src/clock.rs"]
mod clock;
mod disk;
#[path = "../../src/files.rs"]
mod files;
#[path = "../../src/members.rs"]
mod members;
#[path = "../../src/pool.rs"]
mod pool;
#[path = "../../src/process.rs"]
mod process;
#[path = "../../src/register.rs"]
mod register;

use std::{
    collections::HashSet,
    hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher},
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use claims::{ClaimResult, Claims};
use members::{Member, Membership};
use pool::{Amounts, Limits, Pool};

const WORKERS_DIR: &str = "workers";
const CLAIMS_DIR: &str = "claims";
const SHARES_DIR: &str = "shares";

/// Same value as in `configs/tables/cluster.toml`.
const LEASE_DURATION: Duration = Duration::from_secs(90);
/// Same value as in the dispatcher: the interval between two checks of other workers' trials.
const MIN_WAIT: Duration = Duration::from_millis(500);
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Same values as in the dispatcher: the number of trials per check, and the age of the list of
/// finished trials.
const MAX_TRIALS_PER_CHECK: usize = 64;
const MAX_LIST_AGE: Duration = Duration::from_secs(30);
/// Duration of the test in which workers make reservations in one shared limit.
const SHARE_DURATION: Duration = Duration::from_secs(20);

/// The parameters of the simulation.
struct SimulationPlan {
    workers: usize,
    trials: usize,
    /// Duration of one trial.
    trial_seconds: f64,
    max_duration: Duration,
}

/// The trial that a worker tries to claim first.
#[derive(Debug, Clone, Copy)]
enum ClaimOrder {
    /// The first trial of the plan.
    FirstInPlan,
    /// A random trial.
    Random,
}

fn main() {
    let mut given = std::env::args().skip(1).map(|one| one.parse::<f64>().expect("a number"));
    let mut next = |usual: f64| given.next().unwrap_or(usual);
    let (workers, trials) = (next(1_000.0) as usize, next(10_000.0) as usize);
    let (latency_ms, rate, seconds) = (next(1.0), next(20_000.0), next(10.0));
    let plan = SimulationPlan {
        workers,
        trials,
        trial_seconds: seconds,
        max_duration: Duration::from_secs_f64(next(300.0)),
    };
    println!(
        "{workers} workers, {trials} trials of {seconds} s, {latency_ms} ms per call, at most {rate} calls per second"
    );
    disk::start_server(Duration::from_secs_f64(latency_ms / 1e3), rate);
    for order in [ClaimOrder::FirstInPlan, ClaimOrder::Random] {
        Simulation::new(&plan).simulate(order);
    }
    let all = [1, 8, 64, workers];
    for (at, count) in all.into_iter().enumerate() {
        if !all[..at].contains(&count) && count <= workers {
            measure_shared_limit(count);
        }
    }
}

/// Creates a directory in memory, so that the local disk does not add to the delays of the
/// simulated server.
fn create_memory_folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    made.expect("a folder")
}

fn join_run(run_dir: &Path) -> Arc<Membership> {
    let member = Member::current("node", "0.1.0", None, LEASE_DURATION);
    Arc::new(Membership::join(run_dir, member).expect("a folder that can be written"))
}

struct Simulation<'a> {
    plan: &'a SimulationPlan,
    started: Instant,
    /// When each worker started its first trial.
    first_claim_times: Mutex<Vec<Duration>>,
    /// When each trial ended.
    trial_end_times: Mutex<Vec<Duration>>,
    claim_counts: Vec<AtomicUsize>,
    failed_workers: AtomicUsize,
    should_stop: AtomicBool,
}

impl<'a> Simulation<'a> {
    fn new(plan: &'a SimulationPlan) -> Self {
        Self {
            plan,
            started: Instant::now(),
            first_claim_times: Mutex::default(),
            trial_end_times: Mutex::default(),
            claim_counts: (0..plan.trials).map(|_| AtomicUsize::new(0)).collect(),
            failed_workers: AtomicUsize::new(0),
            should_stop: AtomicBool::new(false),
        }
    }

    fn simulate(&self, order: ClaimOrder) {
        let run = create_memory_folder();
        disk::take_counts();
        thread::scope(|scope| {
            for _ in 0..self.plan.workers {
                scope.spawn(|| self.run_worker(run.path(), order));
            }
            scope.spawn(|| {
                while self.started.elapsed() < self.plan.max_duration && !self.is_complete() {
                    thread::sleep(MIN_WAIT);
                }
                self.should_stop.store(!self.is_complete(), Ordering::Relaxed);
            });
        });
        self.print_results(order);
    }

    fn is_complete(&self) -> bool {
        self.trial_end_times.lock().unwrap_or_else(PoisonError::into_inner).len()
            == self.plan.trials
    }

    /// Runs the dispatcher's loop with one trial at a time.
    fn run_worker(&self, run_dir: &Path, order: ClaimOrder) {
        let membership = join_run(run_dir);
        let claims = Claims::new(&membership);
        let trials = self.plan.trials;
        let start = match order {
            ClaimOrder::FirstInPlan => 0,
            ClaimOrder::Random => fastrand::usize(..trials),
        };
        let mut left: Vec<usize> = (0..trials).map(|at| (start + at) % trials).collect();
        let (mut wait, mut is_first) = (MIN_WAIT, true);
        let mut ended = FinishedList { claims: &claims, keys: HashSet::new(), read_time: None };
        let mut unchecked = Vec::new();
        while !left.is_empty() {
            let mut elsewhere = unchecked;
            for trial in left {
                if self.should_stop.load(Ordering::Relaxed) {
                    return;
                }
                if ended.contains(trial) {
                    continue;
                }
                match claims.claim(&trial_key(trial)) {
                    Ok(ClaimResult::Claimed(mut claim)) => {
                        if std::mem::take(&mut is_first) {
                            push_time(&self.first_claim_times, self.started.elapsed());
                        }
                        self.claim_counts[trial].fetch_add(1, Ordering::Relaxed);
                        thread::sleep(Duration::from_secs_f64(self.plan.trial_seconds));
                        claim.mark_finished();
                        drop(claim);
                        push_time(&self.trial_end_times, self.started.elapsed());
                    }
                    Ok(ClaimResult::OwnedBy(_)) => elsewhere.push(trial),
                    Ok(ClaimResult::Finished) => {}
                    Err(_) => {
                        self.failed_workers.fetch_add(1, Ordering::Relaxed);
                        return;
                    }
                }
            }
            if !elsewhere.is_empty() {
                thread::sleep(wait);
                wait = (wait * 2).min(MAX_WAIT);
            }
            ended.read_time = None;
            elsewhere.retain(|trial| !ended.contains(*trial));
            fastrand::shuffle(&mut elsewhere);
            unchecked = elsewhere.split_off(elsewhere.len().min(MAX_TRIALS_PER_CHECK));
            left = elsewhere;
        }
    }

    fn print_results(&self, order: ClaimOrder) {
        let SimulationPlan { workers, trials, .. } = *self.plan;
        let took = self.started.elapsed().as_secs_f64();
        let calls = disk::take_counts();
        let all: u64 = calls.iter().map(|(_, count)| count).sum();
        let mut first =
            std::mem::take(&mut *self.first_claim_times.lock().expect("the first trials"));
        let ended = self.trial_end_times.lock().expect("the ends");
        first.sort_unstable();
        let of = |share: f64| {
            let at = (share * workers as f64).ceil() as usize;
            first
                .get(at.saturating_sub(1))
                .map_or("never".to_owned(), |it| format!("{:.1} s", it.as_secs_f64()))
        };
        println!(
            "\nworkers start with {}:",
            match order {
                ClaimOrder::FirstInPlan => "the first trial of the plan",
                ClaimOrder::Random => "a random trial",
            }
        );
        println!("  first trial: half of the workers after {}, all after {}", of(0.5), of(1.0));
        println!(
            "  {} of {trials} trials in {took:.1} s; without a file server {:.1} s",
            ended.len(),
            self.plan.trial_seconds * trials.div_ceil(workers) as f64
        );
        if let Some(last) = ended.iter().max() {
            let last = last.as_secs_f64();
            println!(
                "  {:.0} trials per second; workers end {:.1} s after the last trial",
                ended.len() as f64 / last,
                took - last
            );
        }
        println!("  {all} calls, {:.0} per trial:", all as f64 / ended.len().max(1) as f64);
        let each = calls.iter().filter(|(_, count)| *count > 0);
        let each: Vec<String> = each.map(|(name, count)| format!("{name} {count}")).collect();
        println!("    {}", each.join(", "));
        let twice = self.claim_counts.iter().filter(|one| one.load(Ordering::Relaxed) > 1).count();
        println!(
            "  trials with two owners: {twice}; workers with file system errors: {}",
            self.failed_workers.load(Ordering::Relaxed)
        );
    }
}

/// The dispatcher's list of finished trials.
struct FinishedList<'a> {
    claims: &'a Claims,
    keys: HashSet<String>,
    read_time: Option<Instant>,
}

impl FinishedList<'_> {
    fn contains(&mut self, trial: usize) -> bool {
        if self.read_time.is_none_or(|at| at.elapsed() > MAX_LIST_AGE) {
            self.keys = self.claims.finished_keys().unwrap_or_default();
            self.read_time = Some(Instant::now());
        }
        self.keys.contains(&trial_key(trial))
    }
}

fn push_time(times: &Mutex<Vec<Duration>>, time: Duration) {
    times.lock().unwrap_or_else(PoisonError::into_inner).push(time);
}

/// Returns a trial's key. The keys are spread over the subdirectories like those of real trials.
fn trial_key(trial: usize) -> String {
    format!("{:016x}", BuildHasherDefault::<DefaultHasher>::default().hash_one(trial))
}

/// Measures how fast workers can make reservations in one shared limit.
fn measure_shared_limit(workers: usize) {
    let run = create_memory_folder();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(workers + 8)
        .enable_time()
        .build()
        .expect("a runtime");
    let one = Amounts::from([("requests".to_owned(), 1)]);
    let limits =
        Limits { maximum: Amounts::from([("requests".to_owned(), u64::MAX)]), window: None };
    let open = |_: usize| {
        let membership = join_run(run.path());
        let pool = Pool::open(&membership, "limit", limits.clone(), Amounts::new());
        Arc::new(pool.expect("a limit"))
    };
    let pools: Vec<Arc<Pool>> = thread::scope(|scope| {
        let opened: Vec<_> = (0..workers).map(|number| scope.spawn(move || open(number))).collect();
        opened.into_iter().map(|one| one.join().expect("a pool")).collect()
    });
    disk::take_counts();
    let until = Instant::now() + SHARE_DURATION;
    let taken: usize = runtime.block_on(async {
        let mut tasks = Vec::new();
        for pool in pools.clone() {
            let one = one.clone();
            tasks.push(tokio::spawn(async move {
                let mut taken = 0;
                while Instant::now() < until {
                    let left = until.saturating_duration_since(Instant::now());
                    let share = tokio::time::timeout(left, pool.reserve(&one, false)).await;
                    let Ok(Ok(share)) = share else { break };
                    share.settle(one.clone());
                    taken += 1;
                }
                taken
            }));
        }
        let mut all = 0;
        for task in tasks {
            all += task.await.expect("a worker");
        }
        all
    });
    let calls: u64 = disk::take_counts().iter().map(|(_, count)| count).sum();
    println!(
        "\none limit, {workers} workers: {:.1} reservations per second, {:.0} calls per reservation",
        taken as f64 / SHARE_DURATION.as_secs_f64(),
        calls as f64 / taken.max(1) as f64
    );
    drop(pools);
    runtime.shutdown_background();
}
