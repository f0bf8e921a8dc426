//! How often each interval holds the true value, and how often each test calls a difference that is not
//! there: `cargo run --release -p proctor-statistics --example coverage [ROUNDS]`.
#![expect(clippy::print_stdout, reason = "its table is what it is for")]

use fastrand::Rng;
use proctor_statistics::{
    LEVEL, Scale, clustered_wilson, difference_interval, mcnemar_exact, mean_interval,
    paired_bootstrap, wilson,
};

fn main() {
    let rounds: u32 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(2000);
    let mut rng = Rng::with_seed(11);
    println!("{rounds} rounds; intervals aim at 95 %, tests at 5 % or less\n");
    println!("{:<44}{:>7}{:>10}{:>10}", "method", "tasks", "attempts", "holds");
    for (tasks, rate) in [(5, 0.5), (20, 0.3), (20, 0.95), (200, 0.3)] {
        let held = share(rounds, || {
            let hits = (0..tasks).filter(|_| rng.f64() < rate).count();
            holds(wilson(hits as f64, tasks as f64, LEVEL), rate)
        });
        row(&format!("Wilson, rate {rate}"), tasks, 1, held);
    }
    for (tasks, attempts) in [(5, 3), (20, 3), (50, 5), (200, 3)] {
        // A task's own rate is 0.9 or 0.1: attempts are alike.
        let held = share(rounds, || {
            let clusters: Vec<_> = (0..tasks)
                .map(|_| {
                    let rate = if rng.bool() { 0.9 } else { 0.1 };
                    let hits = (0..attempts).filter(|_| rng.f64() < rate).count();
                    (hits as f64, attempts as f64)
                })
                .collect();
            holds(clustered_wilson(&clusters, LEVEL), 0.5)
        });
        row("Wilson by task, alike attempts", tasks, attempts, held);
    }
    for tasks in [5, 12, 20, 30, 100] {
        let held = share(rounds, || {
            // Three in ten pass nothing, four all, the others a part.
            let values: Vec<f64> = (0..tasks).map(|_| passed(&mut rng)).collect();
            holds(mean_interval(&values, Scale::Share, LEVEL), 0.4 + 0.3 * 0.5)
        });
        row("BCa of a passed rate", tasks, 1, held);
        let held = share(rounds, || {
            let values: Vec<f64> = (0..tasks).map(|_| tokens(&mut rng)).collect();
            holds(mean_interval(&values, Scale::Amount, LEVEL), 1000.0)
        });
        row("BCa of tokens, exponential", tasks, 1, held);
    }
    for tasks in [6, 20, 100] {
        for difference in [0.0, 0.2] {
            let mut called = 0;
            let held = share(rounds, || {
                let (mut a_only, mut b_only) = (0, 0);
                for _ in 0..tasks {
                    let draw = rng.f64();
                    a_only += u64::from(draw < 0.1 + difference);
                    b_only += u64::from(draw > 0.9);
                }
                called += u32::from(mcnemar_exact(a_only, b_only) < 0.05);
                holds(difference_interval(a_only, b_only, tasks as u64, LEVEL), difference)
            });
            row(&format!("Bonett-Price, difference {difference}"), tasks, 1, held);
            row("  McNemar calls a difference", tasks, 1, f64::from(called) / f64::from(rounds));
        }
    }
    for (tasks, attempts) in [(6, 3), (12, 3), (20, 3), (40, 3), (100, 3)] {
        for difference in [0.0, 0.2] {
            let mut called = 0;
            let held = share(rounds, || {
                let clusters: Vec<Vec<f64>> = (0..tasks)
                    .map(|_| {
                        let rate = 0.7 * rng.f64();
                        let mut of = |rate: f64| {
                            let hits = (0..attempts).filter(|_| rng.f64() < rate).count();
                            hits as f64 / attempts as f64
                        };
                        vec![of(rate + difference) - of(rate)]
                    })
                    .collect();
                let Some(found) = paired_bootstrap(&clusters, Scale::Share, LEVEL) else {
                    return false;
                };
                called += u32::from(found.p_value < 0.05);
                holds(found.interval, difference)
            });
            row(&format!("paired bootstrap, difference {difference}"), tasks, attempts, held);
            row("  calls a difference", tasks, attempts, f64::from(called) / f64::from(rounds));
        }
    }
}

fn passed(rng: &mut Rng) -> f64 {
    match rng.u8(0..10) {
        0..=2 => 0.0,
        3..=6 => 1.0,
        _ => rng.f64(),
    }
}

fn tokens(rng: &mut Rng) -> f64 {
    -1000.0 * (1.0 - rng.f64()).ln()
}

fn holds(interval: Option<[f64; 2]>, truth: f64) -> bool {
    interval.is_some_and(|[lower, upper]| lower <= truth && truth <= upper)
}

fn share(rounds: u32, mut round: impl FnMut() -> bool) -> f64 {
    f64::from((0..rounds).map(|_| u32::from(round())).sum::<u32>()) / f64::from(rounds)
}

fn row(method: &str, tasks: usize, attempts: usize, held: f64) {
    println!("{method:<44}{tasks:>7}{attempts:>10}{:>9.1}%", held * 100.0);
}
