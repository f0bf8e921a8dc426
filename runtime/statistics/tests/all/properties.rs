//! What must hold of any data.

use proctor_statistics::{
    Scale, clustered_wilson, mcnemar_exact, mean_interval, paired_bootstrap, wilson,
};

/// Differences of single tasks: so many of 1, of -1 and of 0.
fn differences(plus: usize, minus: usize, same: usize) -> Vec<Vec<f64>> {
    let all = [vec![1.0; plus], vec![-1.0; minus], vec![0.0; same]].concat();
    all.into_iter().map(|one| vec![one]).collect()
}

#[test]
fn the_bootstrap_of_one_attempt_is_mcnemars_exact_test() {
    for (plus, minus) in [(6, 0), (0, 1), (5, 4), (9, 2), (7, 7)] {
        let found = paired_bootstrap(&differences(plus, minus, 11), Scale::Share, 0.95).unwrap();
        let exact = mcnemar_exact(plus as u64, minus as u64);
        assert!((found.p_value - exact).abs() < 1e-12, "{plus} {minus}: {found:?}");
    }
    // Drawn at random above 14 signs: near, and never 0.
    let found = paired_bootstrap(&differences(20, 8, 60), Scale::Share, 0.95).unwrap();
    assert!((found.p_value - mcnemar_exact(20, 8)).abs() < 0.01, "{found:?}");
    let found = paired_bootstrap(&differences(60, 0, 0), Scale::Share, 0.95).unwrap();
    assert!(found.p_value > 0.0 && found.p_value < 0.001, "{found:?}");
}

#[test]
fn the_order_of_the_tasks_changes_no_digit() {
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
    // Pinned: another generator would make old reports disagree with new ones.
    let interval = found.unwrap().interval.unwrap();
    let shown = interval.map(|end| format!("{end:.6}"));
    assert_eq!(shown, ["2.145000", "7.465709"]);
}

#[test]
fn whole_repositories_tell_less_than_as_many_tasks() {
    // Four repositories of ten tasks each, alike within.
    let rates = [0.4, -0.1, 0.5, 0.2, 0.3, -0.2, 0.1, 0.6, 0.0, 0.3, 0.2, 0.4];
    let tasks: Vec<Vec<f64>> = rates.iter().flat_map(|d| vec![vec![*d]; 10]).collect();
    let repositories: Vec<Vec<f64>> = rates.iter().map(|d| vec![*d; 10]).collect();
    let by_task = paired_bootstrap(&tasks, Scale::Share, 0.95).unwrap();
    let by_repository = paired_bootstrap(&repositories, Scale::Share, 0.95).unwrap();
    assert!((by_task.difference - by_repository.difference).abs() < 1e-12);
    let width = |interval: Option<[f64; 2]>| interval.map(|[lower, upper]| upper - lower).unwrap();
    assert!(width(by_repository.interval) > 2.0 * width(by_task.interval));
    assert!(by_repository.p_value > by_task.p_value);
}

#[test]
fn attempts_at_one_task_are_no_further_tasks() {
    let alike: Vec<(f64, f64)> = (0..20).map(|i| (if i < 8 { 5.0 } else { 0.0 }, 5.0)).collect();
    assert_eq!(clustered_wilson(&alike, 0.95), wilson(8.0, 20.0, 0.95));
    let single: Vec<(f64, f64)> = (0..20).map(|i| (f64::from(u8::from(i < 8)), 1.0)).collect();
    assert_eq!(clustered_wilson(&single, 0.95), wilson(8.0, 20.0, 0.95));
    // Tasks that are all equally hard: every attempt counts.
    let spread: Vec<(f64, f64)> = (0..20).map(|_| (2.0, 5.0)).collect();
    let [lower, upper] = clustered_wilson(&spread, 0.95).unwrap();
    let [low, high] = clustered_wilson(&alike, 0.95).unwrap();
    assert!(lower >= low && upper <= high);
    assert_eq!(clustered_wilson(&[], 0.95), None);
}

#[test]
fn no_interval_of_a_share_has_no_width() {
    for values in [vec![1.0], vec![0.0; 3], vec![1.0; 12], vec![0.5; 40]] {
        let [lower, upper] = mean_interval(&values, Scale::Share, 0.95).unwrap();
        assert!(lower < upper && lower >= 0.0 && upper <= 1.0, "{values:?}");
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        assert!(lower <= mean && mean <= upper, "{values:?}");
    }
    let one = paired_bootstrap(&[vec![1.0, 1.0]], Scale::Share, 0.95).unwrap();
    assert!(one.interval.unwrap()[0] < 0.0 && one.p_value == 1.0, "{one:?}");
    // One task says nothing of an amount.
    let one = paired_bootstrap(&[vec![900.0]], Scale::Amount, 0.95).unwrap();
    assert_eq!((one.interval, one.p_value), (None, 1.0));
}
