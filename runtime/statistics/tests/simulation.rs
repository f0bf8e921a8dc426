//! Simulates every kind of comparison for equal and for different arms. Measures how often the
//! interval contains the true difference, how often the test reports a difference, and whether the
//! task counts in plans are sufficient. Prints the results.
//!
//! `PROCTOR_TIER=full cargo test --release -p proctor-statistics --test simulation -- --nocapture`
//! runs the full simulation.

use fastrand::Rng;
use proctor_statistics::{
    ALPHA, CONFIDENCE_LEVEL, PairedDifference, PowerTarget, Scale, difference_interval,
    holm_p_values, mcnemar_detectable_difference, mcnemar_exact_p, mcnemar_power,
    mcnemar_tasks_needed, paired_bootstrap, tasks_for_mean_difference,
};

fn is_full_tier() -> bool {
    std::env::var("PROCTOR_TIER").is_ok_and(|tier| tier == "full")
}

/// Returns the fraction of attempts at a task that an arm resolves.
fn simulate_resolved_fraction(rng: &mut Rng, rate: f64, attempts: u32) -> f64 {
    let hits = (0..attempts).filter(|_| rng.f64() < rate).count();
    hits as f64 / f64::from(attempts)
}

fn sample_normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

/// The data that each round generates.
#[derive(Debug, Clone, Copy)]
enum DataKind {
    /// Tasks of all difficulties. One arm is better by `advantage`.
    Resolved { attempts: u32, advantage: f64 },
    /// All tasks have the same low rate for each arm.
    Sparse { attempts: u32, a: f64, b: f64 },
    /// 30% of the tasks pass no tests, 40% pass all of them, and the rest pass some.
    Passed { advantage: f64 },
    /// Token counts that are log-normal between and within tasks. One arm's are larger by
    /// `increase`.
    Tokens { increase: f64 },
    /// Sums of about twenty steps with one or two responses each.
    Steps,
    /// Repositories of 1 to 14 tasks. Each repository has its own difference.
    Repositories,
}

impl DataKind {
    fn name(self) -> String {
        match self {
            Self::Resolved { attempts, advantage: better } => {
                format!("resolved, {attempts} attempts, {better} better")
            }
            Self::Sparse { attempts, a, b } => {
                format!("resolved, {attempts} attempts, {a} against {b}")
            }
            Self::Passed { advantage: better } => format!("passed rate, {better} better"),
            Self::Tokens { increase: more } => format!("tokens, {more} more"),
            Self::Steps => "steps".to_owned(),
            Self::Repositories => "resolved by repository".to_owned(),
        }
    }

    fn scale(self) -> Scale {
        match self {
            Self::Tokens { .. } | Self::Steps => Scale::Amount,
            _ => Scale::Proportion,
        }
    }

    fn true_difference(self) -> f64 {
        match self {
            Self::Resolved { advantage: better, .. } | Self::Passed { advantage: better } => better,
            Self::Sparse { a, b, .. } => a - b,
            // The mean of a log-normal value with both variance components.
            Self::Tokens { increase: more } => more * (7.0 + 0.5 + 0.18_f64).exp(),
            Self::Steps | Self::Repositories => 0.0,
        }
    }

    /// Generates one cluster of differences.
    fn generate_cluster(self, rng: &mut Rng) -> Vec<f64> {
        match self {
            Self::Resolved { attempts, advantage: better } => {
                let rate = 0.8 * rng.f64();
                vec![
                    simulate_resolved_fraction(rng, rate + better, attempts)
                        - simulate_resolved_fraction(rng, rate, attempts),
                ]
            }
            Self::Sparse { attempts, a, b } => {
                vec![
                    simulate_resolved_fraction(rng, a, attempts)
                        - simulate_resolved_fraction(rng, b, attempts),
                ]
            }
            Self::Passed { advantage: better } => {
                let mut arm = |better: f64| match rng.f64() {
                    draw if draw < 0.3 - better => 0.0,
                    draw if draw < 0.7 - better => rng.f64(),
                    _ => 1.0,
                };
                vec![arm(better) - arm(0.0)]
            }
            Self::Tokens { increase: more } => {
                let task = 7.0 + sample_normal(rng);
                let (a, b) = (sample_normal(rng), sample_normal(rng));
                vec![(1.0 + more) * (task + 0.6 * a).exp() - (task + 0.6 * b).exp()]
            }
            Self::Steps => {
                let mut arm = || f64::from((0..20).map(|_| rng.u32(0..3)).sum::<u32>());
                vec![arm() - arm()]
            }
            Self::Repositories => {
                let own = 0.15 * sample_normal(rng);
                let tasks = rng.usize(1..15);
                let one = |rng: &mut Rng| {
                    simulate_resolved_fraction(rng, 0.4 + own, 1)
                        - simulate_resolved_fraction(rng, 0.4 - own, 1)
                };
                (0..tasks).map(|_| one(rng)).collect()
            }
        }
    }

    /// Compares as the command `compare` does.
    fn compare(self, clusters: &[Vec<f64>]) -> ([f64; 2], f64) {
        if let Self::Resolved { attempts: 1, .. } | Self::Sparse { attempts: 1, .. } = self {
            let count = |of: f64| clusters.iter().filter(|one| one[0] == of).count() as u64;
            let (a_only, b_only) = (count(1.0), count(-1.0));
            let tasks = clusters.len() as u64;
            let interval =
                difference_interval(a_only, b_only, tasks, CONFIDENCE_LEVEL).unwrap_or([0.0; 2]);
            return (interval, mcnemar_exact_p(a_only, b_only));
        }
        let found: Option<PairedDifference> =
            paired_bootstrap(clusters, self.scale(), CONFIDENCE_LEVEL);
        found.map_or(([0.0; 2], 1.0), |one| (one.interval.unwrap_or([0.0; 2]), one.p_value))
    }
}

/// Returns how often the interval contains the difference, how often the test reports a difference,
/// and the mean width of the interval.
fn simulate_rounds(kind: DataKind, clusters: usize, rounds: u32) -> (f64, f64, f64) {
    let mut rng = Rng::with_seed(11);
    let (mut holds, mut calls, mut width) = (0_u32, 0_u32, 0.0);
    for _ in 0..rounds {
        let drawn: Vec<Vec<f64>> = (0..clusters).map(|_| kind.generate_cluster(&mut rng)).collect();
        let ([lower, upper], p_value) = kind.compare(&drawn);
        holds += u32::from(lower <= kind.true_difference() && kind.true_difference() <= upper);
        calls += u32::from(p_value < ALPHA);
        width += upper - lower;
        // The interval must agree with the test for every draw.
        let leaves_zero_out = lower > 0.0 || upper < 0.0;
        assert_eq!(leaves_zero_out, p_value < ALPHA, "{kind:?}: {lower} {upper} {p_value}");
    }
    let of = |count: u32| f64::from(count) / f64::from(rounds);
    (of(holds), of(calls), width / f64::from(rounds))
}

#[test]
fn intervals_cover_the_difference_and_tests_keep_their_level() {
    let full = is_full_tier();
    let times = if full { 2000 } else { 200 };
    let sizes: &[usize] = if full { &[2, 6, 12, 20, 50, 100, 200] } else { &[2, 6, 12, 50] };
    let mut cases = Vec::new();
    for &tasks in sizes {
        for attempts in [1, 3] {
            cases.push((DataKind::Resolved { attempts, advantage: 0.0 }, tasks));
            cases.push((DataKind::Resolved { attempts, advantage: 0.2 }, tasks));
        }
        cases.push((DataKind::Passed { advantage: 0.0 }, tasks));
        cases.push((DataKind::Passed { advantage: 0.15 }, tasks));
        cases.push((DataKind::Tokens { increase: 0.0 }, tasks));
        cases.push((DataKind::Tokens { increase: 0.3 }, tasks));
        cases.push((DataKind::Steps, tasks));
    }
    let sparse: &[usize] = if full { &[100, 150, 200] } else { &[100] };
    for &tasks in sparse {
        for attempts in [1, 3] {
            for b in [0.03, 0.06, 0.0] {
                cases.push((DataKind::Sparse { attempts, a: 0.03, b }, tasks));
            }
        }
    }
    let repositories: &[usize] = if full { &[2, 3, 5, 8, 12, 20, 40] } else { &[3, 12, 40] };
    cases.extend(repositories.iter().map(|count| (DataKind::Repositories, *count)));
    println!("{times} rounds; targets: coverage of at least 95%, at most 5% false positives");
    println!("{:<44}{:>9}{:>8}{:>8}{:>12}", "", "clusters", "holds", "calls", "width");
    // Three standard errors of a proportion of 5%.
    let chance = 3.0 * (0.05 * 0.95 / f64::from(times)).sqrt();
    let mut wrong = Vec::new();
    for (kind, clusters) in cases {
        let (holds, calls, width) = simulate_rounds(kind, clusters, times);
        let row = format!(
            "{:<44}{clusters:>9}{:>7.1}%{:>7.1}%{width:>12.3}",
            kind.name(),
            holds * 100.0,
            calls * 100.0
        );
        println!("{row}");
        // Amounts with a long tail have less coverage: see docs/concepts/statistics.md.
        let tail = match kind {
            DataKind::Tokens { increase: more } if more > 0.0 => 0.05,
            DataKind::Resolved { .. } | DataKind::Sparse { .. } => 0.01,
            _ => 0.005,
        };
        if holds < 0.95 - chance - tail || kind.true_difference() == 0.0 && calls > 0.05 + chance {
            wrong.push(row);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn holm_bounds_false_differences_between_equal_arms() {
    let times = if is_full_tier() { 2000 } else { 100 };
    let mut rng = Rng::with_seed(12);
    println!("{times} rounds of equal arms: families in which any pair is called different");
    for (arms, tasks, attempts) in [(5, 30, 1), (5, 30, 3), (12, 16, 1)] {
        let mut called = 0_u32;
        for _ in 0..times {
            let rates: Vec<f64> = (0..tasks).map(|_| rng.f64()).collect();
            let results: Vec<Vec<f64>> = (0..arms)
                .map(|_| {
                    rates
                        .iter()
                        .map(|rate| simulate_resolved_fraction(&mut rng, *rate, attempts))
                        .collect()
                })
                .collect();
            let mut values = Vec::new();
            for (first, a) in results.iter().enumerate() {
                for b in &results[first + 1..] {
                    let clusters: Vec<Vec<f64>> =
                        a.iter().zip(b).map(|(a, b)| vec![a - b]).collect();
                    let kind = DataKind::Resolved { attempts, advantage: 0.0 };
                    values.push(kind.compare(&clusters).1);
                }
            }
            called += u32::from(holm_p_values(&values).iter().any(|value| *value < ALPHA));
        }
        let share = f64::from(called) / f64::from(times);
        println!("{arms} arms, {tasks} tasks, {attempts} attempts: {:.1}%", share * 100.0);
        let chance = 3.0 * (0.05 * 0.95 / f64::from(times)).sqrt();
        assert!(share <= 0.05 + chance, "{share}");
    }
}

/// Returns how often the exact test reports a difference on this many tasks.
fn detection_rate(
    rng: &mut Rng,
    tasks: u64,
    (d, discordant): (f64, f64),
    alpha: f64,
    repetitions: u32,
) -> f64 {
    let hits = (0..repetitions).filter(|_| {
        let (mut a_only, mut b_only) = (0, 0);
        for _ in 0..tasks {
            let draw = rng.f64();
            a_only += u64::from(draw < (discordant + d) / 2.0);
            b_only += u64::from(draw >= (discordant + d) / 2.0 && draw < discordant);
        }
        mcnemar_exact_p(a_only, b_only) < alpha
    });
    hits.count() as f64 / f64::from(repetitions)
}

#[test]
fn mcnemar_tasks_needed_reach_the_intended_power() {
    let times = if is_full_tier() { 5000 } else { 1000 };
    let mut rng = Rng::with_seed(13);
    println!("{times} rounds; target power 80%");
    for (d, discordant) in [(0.5, 0.5), (0.3, 0.4), (0.2, 0.3), (0.1, 0.2), (0.05, 0.05)] {
        for comparisons in [1, 3, 28, 528] {
            let wanted = PowerTarget::for_comparisons(comparisons);
            let tasks = mcnemar_tasks_needed(d, discordant, wanted).unwrap();
            let power = detection_rate(&mut rng, tasks, (d, discordant), wanted.alpha, times);
            let fewer =
                detection_rate(&mut rng, tasks * 3 / 4, (d, discordant), wanted.alpha, times);
            println!(
                "one attempt, {d} of {discordant}, {comparisons} pairs: {tasks} tasks, {:.1}%; {} tasks, {:.1}%",
                power * 100.0,
                tasks * 3 / 4,
                fewer * 100.0
            );
            assert!((0.75..0.92).contains(&power), "{d} {discordant} {comparisons}: {power}");
            assert!(fewer < 0.77, "{d} {discordant} {comparisons}: {fewer}");
            let summed = mcnemar_power(tasks, d, discordant, wanted.alpha);
            assert!((power - summed).abs() < 0.05, "{power} {summed}");
        }
    }
    // The difference that a plan reports as detectable before the run.
    for tasks in [50, 200] {
        let wanted = PowerTarget::for_comparisons(3);
        let seen = mcnemar_detectable_difference(tasks, 0.2, wanted).unwrap();
        let power = detection_rate(&mut rng, tasks, (seen, 0.2), wanted.alpha, times);
        println!(
            "a plan of {tasks} tasks and 3 arms: {:.1} points, {:.1}%",
            seen * 100.0,
            power * 100.0
        );
        assert!((0.75..0.86).contains(&power), "{tasks}: {power}");
    }
}

#[test]
fn tasks_for_mean_difference_reach_the_intended_power() {
    let times = if is_full_tier() { 1000 } else { 100 };
    let mut rng = Rng::with_seed(14);
    // In a tenth of the tasks only one arm can win. In a fifth either arm may win by chance.
    let cluster = |rng: &mut Rng, better: f64| {
        let (a, b) = match rng.f64() {
            draw if draw < 0.05 + better / 2.0 => (1.0, 0.0),
            draw if draw < 0.1 => (0.0, 1.0),
            draw if draw < 0.3 => (0.5, 0.5),
            _ => (0.0, 0.0),
        };
        simulate_resolved_fraction(rng, a, 3) - simulate_resolved_fraction(rng, b, 3)
    };
    for (better, comparisons) in [(0.1, 1), (0.1, 6), (0.07, 3)] {
        let wanted = PowerTarget::for_comparisons(comparisons);
        let sample: Vec<f64> = (0..20_000).map(|_| cluster(&mut rng, better)).collect();
        let size = sample.len() as f64;
        let mean = sample.iter().sum::<f64>() / size;
        let deviation =
            (sample.iter().map(|one| one * one).sum::<f64>() / size - mean * mean).sqrt();
        let differing = sample.iter().filter(|one| **one != 0.0).count() as f64 / size;
        let tasks = tasks_for_mean_difference(mean, deviation, differing, wanted).unwrap();
        let hits = (0..times).filter(|_| {
            let clusters: Vec<Vec<f64>> =
                (0..tasks).map(|_| vec![cluster(&mut rng, better)]).collect();
            let found = paired_bootstrap(&clusters, Scale::Proportion, CONFIDENCE_LEVEL);
            found.is_some_and(|found| found.p_value < wanted.alpha)
        });
        let power = hits.count() as f64 / f64::from(times);
        println!(
            "3 attempts, {better} better, {comparisons} pairs: {tasks} tasks, {:.1}%",
            power * 100.0
        );
        let chance = 3.0 * (0.16 / f64::from(times)).sqrt();
        assert!((power - 0.8).abs() < 0.05 + chance, "{power}");
    }
}
