//! Compares results with SciPy, statsmodels and NumPy. `reference.py` creates `reference.json`.
#![expect(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

use proctor_statistics::{
    PowerTarget, Scale, bca_interval, detectable_difference, detectable_mean_difference,
    difference_interval, estimate_ratio, holm_p_values, kendall_tau, mcnemar_detectable_difference,
    mcnemar_exact_p, mcnemar_mid_p, mcnemar_power, mcnemar_tasks_needed, mean_interval,
    paired_bootstrap, pass_at_k, pass_hat_k, rank_agreement, tasks_for_mean_difference,
    variance_components, wilson_interval,
};
use serde_json::Value;

fn reference_rows(name: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(include_str!("../reference.json")).unwrap();
    let rows = all[name].as_array().unwrap().clone();
    assert!(!rows.is_empty(), "{name}");
    rows
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(number).collect()
}

#[track_caller]
fn assert_near(actual: f64, expected: &Value, reference_row: &Value) {
    let wanted = number(expected);
    let off = (actual - wanted).abs();
    assert!(off <= 1e-9 * wanted.abs().max(1.0), "{actual} is not {wanted}: {reference_row}");
    // For a small probability, the leading digits must match too.
    assert!(
        wanted == 0.0 || off <= 1e-9 * wanted.abs() || off < 1e-15,
        "{actual}: {reference_row}"
    );
}

#[track_caller]
fn assert_interval_near(actual: Option<[f64; 2]>, reference_row: &Value) {
    let found = actual.unwrap();
    assert_near(found[0], &reference_row["interval"][0], reference_row);
    assert_near(found[1], &reference_row["interval"][1], reference_row);
}

#[test]
fn mcnemar_matches_scipy() {
    for row in reference_rows("mcnemar") {
        let (a, b) = (count(&row["a"]), count(&row["b"]));
        assert_near(mcnemar_exact_p(a, b), &row["exact"], &row);
        assert_near(mcnemar_mid_p(a, b), &row["mid"], &row);
    }
    assert_eq!(mcnemar_exact_p(0, 0), 1.0);
    assert_eq!(mcnemar_exact_p(6, 0), 0.03125);
}

#[test]
fn proportion_intervals_match_statsmodels() {
    for row in reference_rows("wilson") {
        let (successes, trials) = (number(&row["successes"]), number(&row["trials"]));
        assert_interval_near(wilson_interval(successes, trials, number(&row["level"])), &row);
    }
    assert_eq!(wilson_interval(0.0, 0.0, 0.95), None);
    for row in reference_rows("difference") {
        let (a, b, tasks) = (count(&row["a"]), count(&row["b"]), count(&row["tasks"]));
        assert_interval_near(difference_interval(a, b, tasks, 0.95), &row);
    }
    assert_eq!(difference_interval(0, 0, 0, 0.95), None);
}

#[test]
fn holm_matches_statsmodels() {
    for row in reference_rows("holm") {
        let found = holm_p_values(&numbers(&row["values"]));
        for (found, wanted) in found.iter().zip(row["adjusted"].as_array().unwrap()) {
            assert_near(*found, wanted, &row);
        }
    }
    assert_eq!(holm_p_values(&[]), Vec::<f64>::new());
}

#[test]
fn pass_at_k_and_pass_hat_k_match_quotients_of_binomials() {
    for row in reference_rows("pass_k") {
        let (n, c, k) = (count(&row["n"]), count(&row["c"]), count(&row["k"]));
        assert_near(pass_at_k(n, c, k).unwrap(), &row["at"], &row);
        assert_near(pass_hat_k(n, c, k).unwrap(), &row["hat"], &row);
    }
    assert_eq!((pass_at_k(2, 1, 3), pass_hat_k(2, 1, 3)), (None, None));
}

#[test]
fn variance_components_match_the_analysis_of_variance() {
    for row in reference_rows("variance") {
        let tasks: Vec<Vec<f64>> = row["tasks"].as_array().unwrap().iter().map(numbers).collect();
        let found = variance_components(&tasks).unwrap();
        assert_near(found.between_tasks, &row["between"], &row);
        assert_near(found.between_attempts, &row["within"], &row);
    }
    assert_eq!(variance_components(&[vec![1.0], vec![0.0]]), None);
    assert_eq!(variance_components(&[vec![1.0, 0.0]]), None);
}

#[test]
fn kendall_tau_matches_scipy() {
    for row in reference_rows("kendall") {
        let (a, b) = (numbers(&row["a"]), numbers(&row["b"]));
        assert_near(kendall_tau(&a, &b).unwrap(), &row["tau"], &row);
    }
}

#[test]
fn rank_agreement_matches_scipy() {
    for row in reference_rows("rank_agreement") {
        let scores = |name: &str| -> Vec<Vec<f64>> {
            let rows = row[name].as_array().unwrap().iter();
            let digits = |text: &Value| {
                let digits = text.as_str().unwrap().chars();
                digits.map(|digit| f64::from(digit.to_digit(10).unwrap())).collect()
            };
            rows.map(digits).collect()
        };
        let nested = row["nested"].as_bool().unwrap();
        let found = rank_agreement(&scores("a"), &scores("b"), nested, 0.95).unwrap();
        assert_near(found.tau, &row["tau"], &row);
        assert_interval_near(found.interval, &row);
    }
}

#[test]
fn bca_matches_scipy() {
    for row in reference_rows("bca") {
        let (draws, jackknife) = (numbers(&row["distribution"]), numbers(&row["jackknife"]));
        assert_interval_near(
            bca_interval(&draws, number(&row["estimate"]), &jackknife, 0.95),
            &row,
        );
    }
    assert_eq!(bca_interval(&[0.5; 100], 0.5, &[0.5; 4], 0.95), None);
}

#[test]
fn sign_flip_matches_scipy_permutation_test() {
    for row in reference_rows("signs") {
        let clusters: Vec<Vec<f64>> =
            numbers(&row["values"]).into_iter().map(|value| vec![value]).collect();
        let found = paired_bootstrap(&clusters, Scale::Proportion, 0.95).unwrap();
        assert_near(found.p_value, &row["p"], &row);
        assert_near(found.p_value, &row["scipy"], &row);
    }
}

#[test]
fn small_samples_use_students_interval() {
    for row in reference_rows("student") {
        assert_interval_near(mean_interval(&numbers(&row["values"]), Scale::Amount, 0.95), &row);
    }
}

#[test]
fn power_matches_the_exact_test() {
    for row in reference_rows("power") {
        let (d, psi) = (number(&row["difference"]), number(&row["discordant"]));
        let (tasks, alpha) = (count(&row["tasks"]), number(&row["alpha"]));
        assert_near(mcnemar_power(tasks, d, psi, alpha), &row["power"], &row);
        let wanted = PowerTarget { alpha, power: 0.8 };
        let needed = mcnemar_tasks_needed(d, psi, wanted).unwrap();
        assert!(mcnemar_power(needed, d, psi, alpha) >= 0.8, "{needed}: {row}");
        assert!(mcnemar_power(needed - 1, d, psi, alpha) < 0.8, "{needed}: {row}");
        // The two functions are inverse, up to whole tasks.
        let seen = mcnemar_detectable_difference(needed, psi, wanted).unwrap();
        assert!(seen <= d + 1e-5, "{seen}: {row}");
    }
    for row in reference_rows("mean_power") {
        let (d, deviation) = (number(&row["difference"]), number(&row["deviation"]));
        let wanted = PowerTarget::for_comparisons(count(&row["comparisons"]));
        let found = tasks_for_mean_difference(d, deviation, 1.0, wanted);
        assert_eq!(found, Some(count(&row["tasks"])));
        let seen = detectable_mean_difference(50, deviation, wanted).unwrap();
        assert_near(seen, &row["smallest"], &row);
    }
    let wanted = PowerTarget::for_comparisons(1);
    assert_eq!(mcnemar_tasks_needed(0.0, 0.1, wanted), None);
    assert_eq!(mcnemar_detectable_difference(3, 0.1, wanted), None);
    // A plan with few tasks can only detect differences that are larger than the usual
    // disagreement. A plan with five tasks can detect none.
    let seen = detectable_difference(20, 0.2, wanted).unwrap();
    assert!((mcnemar_power(20, seen, seen, 0.05) - 0.8).abs() < 1e-3 && seen > 0.2, "{seen}");
    assert_eq!(detectable_difference(6, 0.2, wanted).map(|seen| seen > 0.9), Some(true));
    assert_eq!(detectable_difference(5, 0.2, wanted), None);
    // Above the number of tasks for which the power is summed, the formula is accurate enough.
    let large = mcnemar_tasks_needed(0.02, 0.1, wanted).unwrap();
    assert!((mcnemar_power(large, 0.02, 0.1, 0.05) - 0.8).abs() < 0.01, "{large}");
    // Results never exceed a realistic number of tasks.
    assert_eq!(tasks_for_mean_difference(1e-12, 0.4, 1.0, wanted), None);
    assert_eq!(tasks_for_mean_difference(0.0, 0.4, 1.0, wanted), None);
    // At least six tasks, all in favor of one arm, are needed to detect a difference.
    assert_eq!(tasks_for_mean_difference(1.0, 0.0, 1.0, wanted), Some(6));
    assert_eq!(tasks_for_mean_difference(1.0, 0.0, 0.5, wanted), Some(12));
}

#[test]
fn ratio_interval_matches_fieller() {
    let mut unbounded = 0;
    for row in reference_rows("ratio") {
        let tasks = numbers(&row["numerators"]).into_iter().zip(numbers(&row["denominators"]));
        let found = estimate_ratio(&tasks.collect::<Vec<_>>(), 0.95).unwrap();
        assert_near(found.value, &row["value"], &row);
        assert_near(found.lower.unwrap(), &row["lower"], &row);
        match found.upper {
            Some(upper) => assert_near(upper, &row["upper"], &row),
            None => {
                assert!(row["upper"].is_null(), "{row}");
                unbounded += 1;
            }
        }
    }
    assert_eq!(unbounded, 1, "few tasks resolved");
}
