//! Properties that hold for any data.

use proctor_statistics::{
    ALPHA, CONFIDENCE_LEVEL, PowerTarget, Scale, adjusted_difference_interval, adjusted_interval,
    bca_interval, clustered_wilson_interval, difference, difference_interval, estimate_ratio,
    holm_p_values, mcnemar_exact_p, mean_interval, paired_bootstrap, tasks_for_mean_difference,
    wilson_interval,
};

/// Builds clusters of one difference each: the given numbers of 1, -1 and 0.
fn differences(positive_count: usize, negative_count: usize, zero_count: usize) -> Vec<Vec<f64>> {
    let all =
        [vec![1.0; positive_count], vec![-1.0; negative_count], vec![0.0; zero_count]].concat();
    all.into_iter().map(|one| vec![one]).collect()
}

#[test]
fn paired_bootstrap_of_one_attempt_equals_mcnemars_exact_test() {
    for (plus, minus) in [(6, 0), (0, 1), (5, 4), (9, 2), (7, 7)] {
        let found =
            paired_bootstrap(&differences(plus, minus, 11), Scale::Proportion, 0.95).unwrap();
        let exact = mcnemar_exact_p(plus as u64, minus as u64);
        assert!((found.p_value - exact).abs() < 1e-12, "{plus} {minus}: {found:?}");
    }
    for (plus, minus) in [(20, 8), (60, 0), (300, 250)] {
        let found =
            paired_bootstrap(&differences(plus, minus, 60), Scale::Proportion, 0.95).unwrap();
        let exact = mcnemar_exact_p(plus as u64, minus as u64);
        assert!((found.p_value / exact - 1.0).abs() < 1e-9, "{plus} {minus}: {found:?}");
    }
    // The p-value is far below what random draws could resolve, but never 0.
    let found = paired_bootstrap(&differences(1500, 0, 0), Scale::Proportion, 0.95).unwrap();
    assert!(found.p_value > 0.0 && found.p_value < 1e-300, "{found:?}");
}

#[test]
fn results_do_not_depend_on_task_order() {
    let tasks: Vec<Vec<f64>> = (0..40)
        .map(|i| (0..1 + i % 3).map(|j| f64::from(i * 7 + j) * 0.1 - 9.0).collect())
        .collect();
    let mut turned = tasks.clone();
    turned.reverse();
    for values in &mut turned {
        values.reverse();
    }
    let found = paired_bootstrap(&tasks, Scale::Amount, 0.95);
    assert_eq!(found, paired_bootstrap(&turned, Scale::Amount, 0.95));
    let interval = found.unwrap().interval.unwrap();
    let shown = interval.map(|end| format!("{end:.6}"));
    assert_eq!(shown, ["1.997669", "7.549166"]);
}

#[test]
fn clustering_by_repository_widens_the_interval() {
    // Twelve repositories of ten tasks each, with equal rates within a repository.
    let rates = [0.4, -0.1, 0.5, 0.2, 0.3, -0.2, 0.1, 0.6, 0.0, 0.3, 0.2, 0.4];
    let tasks: Vec<Vec<f64>> = rates.iter().flat_map(|d| vec![vec![*d]; 10]).collect();
    let repositories: Vec<Vec<f64>> = rates.iter().map(|d| vec![*d; 10]).collect();
    let by_task = paired_bootstrap(&tasks, Scale::Proportion, 0.95).unwrap();
    let by_repository = paired_bootstrap(&repositories, Scale::Proportion, 0.95).unwrap();
    assert!((by_task.difference - by_repository.difference).abs() < 1e-12);
    let width = |interval: Option<[f64; 2]>| interval.map(|[lower, upper]| upper - lower).unwrap();
    assert!(width(by_repository.interval) > 2.0 * width(by_task.interval));
    assert!(by_repository.p_value > by_task.p_value);
}

#[test]
fn attempts_at_one_task_do_not_count_as_tasks() {
    let alike: Vec<(f64, f64)> = (0..20).map(|i| (if i < 8 { 5.0 } else { 0.0 }, 5.0)).collect();
    assert_eq!(clustered_wilson_interval(&alike, 0.95), wilson_interval(8.0, 20.0, 0.95));
    let single: Vec<(f64, f64)> = (0..20).map(|i| (f64::from(u8::from(i < 8)), 1.0)).collect();
    assert_eq!(clustered_wilson_interval(&single, 0.95), wilson_interval(8.0, 20.0, 0.95));
    // All tasks are equally hard, so every attempt carries as much information as another task.
    let spread: Vec<(f64, f64)> = (0..20).map(|_| (2.0, 5.0)).collect();
    let [lower, upper] = clustered_wilson_interval(&spread, 0.95).unwrap();
    let [low, high] = clustered_wilson_interval(&alike, 0.95).unwrap();
    assert!(lower >= low && upper <= high);
    assert_eq!(clustered_wilson_interval(&[], 0.95), None);
}

#[test]
fn intervals_of_proportions_never_have_zero_width() {
    for values in [vec![1.0], vec![0.0; 3], vec![1.0; 12], vec![0.5; 40]] {
        let [lower, upper] = mean_interval(&values, Scale::Proportion, 0.95).unwrap();
        assert!(lower < upper && lower >= 0.0 && upper <= 1.0, "{values:?}");
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        assert!(lower <= mean && mean <= upper, "{values:?}");
    }
    let one = paired_bootstrap(&[vec![1.0, 1.0]], Scale::Proportion, 0.95).unwrap();
    assert!(one.interval.unwrap()[0] < 0.0 && one.p_value == 1.0, "{one:?}");
    // One task carries no information about an amount.
    let one = paired_bootstrap(&[vec![900.0]], Scale::Amount, 0.95).unwrap();
    assert_eq!((one.interval, one.p_value), (None, 1.0));
}

#[test]
fn float_noise_does_not_count_as_a_difference() {
    let third = 1.0 / 3.0;
    // Three tasks are better by a third and one is entirely worse: their sum is only a rounding
    // error.
    let tasks = [third, third, third, -1.0].map(|one| vec![one]);
    let found = paired_bootstrap(&tasks, Scale::Proportion, CONFIDENCE_LEVEL).unwrap();
    assert_eq!((found.difference, found.p_value), (0.0, 1.0));
    let needed = tasks_for_mean_difference(
        found.difference,
        found.deviation,
        1.0,
        PowerTarget::for_comparisons(1),
    );
    assert_eq!(needed, None);
    // The differences also cancel out within one cluster.
    let found = paired_bootstrap(&[tasks.concat(), vec![0.0]], Scale::Proportion, CONFIDENCE_LEVEL)
        .unwrap();
    assert_eq!((found.difference, found.p_value, found.differing_fraction), (0.0, 1.0, 0.0));
    // The mean cost of the same responses, summed in another order.
    let (one, other): (f64, f64) = (0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1);
    assert!(one != other && difference(one, other) == 0.0);
    assert_eq!(difference(1e-12, 0.0), 1e-12, "small is not noise");
    // A draw that equals the estimate except for rounding counts as half below and half above it.
    let sorted = [vec![0.0; 20], vec![1.0; 60], vec![2.0; 20]].concat();
    let mut noisy = sorted.clone();
    noisy[20..50].fill(1.0 - 1e-15);
    let jackknife = [0.9, 1.0, 1.1];
    let (found, wanted) = (
        bca_interval(&noisy, 1.0, &jackknife, CONFIDENCE_LEVEL),
        bca_interval(&sorted, 1.0, &jackknife, CONFIDENCE_LEVEL),
    );
    let (found, wanted) = (found.unwrap(), wanted.unwrap());
    assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?} {wanted:?}");
}

#[test]
fn interval_of_two_tasks_has_nonzero_width() {
    for scale in [Scale::Proportion, Scale::Amount] {
        for values in [[1.0, 1.0], [0.25, 0.25], [-0.5, -0.5]] {
            let clusters = values.map(|one| vec![one]);
            let found = paired_bootstrap(&clusters, scale, CONFIDENCE_LEVEL).unwrap();
            let [lower, upper] = found.interval.unwrap();
            assert!(lower < 0.0 && upper > 0.0, "two tasks cannot show a difference: {found:?}");
        }
    }
    // If all amounts are equal, their variation is unknown.
    let none = paired_bootstrap(&[vec![0.0], vec![0.0]], Scale::Amount, CONFIDENCE_LEVEL).unwrap();
    assert_eq!((none.interval, none.p_value), (None, 1.0));
}

#[test]
fn paired_bootstrap_detects_a_small_but_consistent_difference() {
    // 33 arms form 528 pairs. In 32 of these pairs, the arms differ on every task.
    let clusters: Vec<Vec<f64>> = vec![vec![1.0]; 16];
    let found = paired_bootstrap(&clusters, Scale::Proportion, CONFIDENCE_LEVEL).unwrap();
    assert_eq!(found.p_value, 2.0 / 65536.0);
    let mut values = vec![1.0; 496];
    values.extend([found.p_value; 32]);
    let adjusted = holm_p_values(&values)[527];
    assert!(adjusted < ALPHA, "{adjusted}");
    let alpha = ALPHA * found.p_value / adjusted;
    let [lower, upper] = adjusted_interval(&clusters, Scale::Proportion, &found, alpha).unwrap();
    assert!(lower > 0.0 && upper == 1.0, "{lower} {upper}");
}

#[test]
fn interval_excludes_zero_if_and_only_if_the_test_is_significant() {
    let mut rng = fastrand::Rng::with_seed(9);
    for round in 0..400 {
        let tasks = rng.usize(1..40);
        let scale = if round % 2 == 0 { Scale::Proportion } else { Scale::Amount };
        let shift = rng.f64() - 0.5;
        let clusters: Vec<Vec<f64>> =
            (0..tasks).map(|_| vec![((rng.f64() - 0.5 + shift) * 3.0).round() / 3.0]).collect();
        let found = paired_bootstrap(&clusters, scale, CONFIDENCE_LEVEL).unwrap();
        for alpha in [ALPHA, ALPHA / 3.0, ALPHA / 528.0] {
            let Some([lower, upper]) = adjusted_interval(&clusters, scale, &found, alpha) else {
                assert_eq!(found.p_value, 1.0);
                continue;
            };
            let without_zero = lower > 0.0 || upper < 0.0;
            assert_eq!(
                without_zero,
                found.p_value < alpha,
                "{found:?} at {alpha}: {lower} {upper}"
            );
            assert!(lower < upper && lower <= found.difference && found.difference <= upper);
        }
        let (a_only, b_only) = (rng.u64(0..20), rng.u64(0..20));
        let tasks = a_only + b_only + rng.u64(1..60);
        let p_value = mcnemar_exact_p(a_only, b_only);
        for alpha in [ALPHA, ALPHA / 6.0] {
            let [lower, upper] =
                adjusted_difference_interval(a_only, b_only, tasks, CONFIDENCE_LEVEL, alpha)
                    .unwrap();
            let without_zero = lower > 0.0 || upper < 0.0;
            assert_eq!(without_zero, p_value < alpha, "{a_only} {b_only} {tasks}: {lower} {upper}");
            let [inner_lower, inner_upper] =
                difference_interval(a_only, b_only, tasks, CONFIDENCE_LEVEL).unwrap();
            assert!(lower <= inner_lower && inner_upper <= upper && lower < upper);
        }
    }
}

#[test]
fn ratio_interval_is_bounded_only_if_the_data_bound_it() {
    // A zero denominator, a single task, and tasks with equal ratios.
    assert_eq!(estimate_ratio(&[(1.0, 0.0), (2.0, 0.0)], CONFIDENCE_LEVEL), None);
    assert_eq!(estimate_ratio(&[], CONFIDENCE_LEVEL), None);
    for tasks in [vec![(3.0, 2.0)], vec![(0.3, 0.1); 7]] {
        let found = estimate_ratio(&tasks, CONFIDENCE_LEVEL).unwrap();
        assert_eq!((found.lower, found.upper), (None, None), "{found:?}");
    }
    let mut rng = fastrand::Rng::with_seed(5);
    for round in 0..400 {
        let rate = f64::from(round % 10) / 10.0 + 0.05;
        let tasks: Vec<(f64, f64)> = (0..rng.usize(2..40))
            .map(|_| (rng.f64() * 3.0, f64::from(u8::from(rng.f64() < rate))))
            .collect();
        let Some(found) = estimate_ratio(&tasks, CONFIDENCE_LEVEL) else {
            assert!(tasks.iter().all(|task| task.1 == 0.0));
            continue;
        };
        let lower = found.lower.unwrap();
        assert!((0.0..=found.value).contains(&lower), "{found:?}");
        assert!(found.upper.is_none_or(|upper| upper >= found.value), "{found:?}");
        let wider = estimate_ratio(&tasks, 0.99).unwrap();
        assert!(wider.lower.unwrap() <= lower + 1e-12, "{found:?} {wider:?}");
        assert!(wider.upper.is_none() || wider.upper >= found.upper, "{found:?} {wider:?}");
        // Ten times the dollars give ten times the ratio, in any order.
        let mut tenfold: Vec<_> = tasks.iter().map(|task| (task.0 * 10.0, task.1)).collect();
        tenfold.reverse();
        let tenfold = estimate_ratio(&tenfold, CONFIDENCE_LEVEL).unwrap();
        assert!((tenfold.value / found.value - 10.0).abs() < 1e-9);
        assert_eq!(tenfold.upper.is_some(), found.upper.is_some());
    }
}

/// Checks how often the interval contains the true ratio. Dollars are log-normal, and expensive
/// tasks are resolved less often.
#[test]
fn ratio_interval_covers_the_true_ratio() {
    let mut rng = fastrand::Rng::with_seed(17);
    let (rounds, mut covered) = (1500, 0);
    for _ in 0..rounds {
        let tasks: Vec<(f64, f64)> = (0..30)
            .map(|_| {
                let hard = rng.f64();
                let dollars = 0.2 + hard + rng.f64();
                (dollars, f64::from(u8::from(rng.f64() > hard)))
            })
            .collect();
        // 1.2 dollars per trial, and half of the trials are resolved.
        let found = estimate_ratio(&tasks, CONFIDENCE_LEVEL).unwrap();
        let is_in = found.lower.is_some_and(|lower| lower <= 2.4)
            && found.upper.is_none_or(|upper| 2.4 <= upper);
        covered += usize::from(is_in);
    }
    let share = covered as f64 / f64::from(rounds);
    assert!((0.93..0.97).contains(&share), "{share}");
}
