//! Compares results with SciPy, statsmodels and NumPy. `reference.py` creates `reference.json`.
#![expect(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

use proctor_statistics::{
    Scale, Wanted, bca, difference_interval, discordant_difference, discordant_power,
    discordant_tasks, holm, kendall_tau, mcnemar_exact, mcnemar_mid_p, mean_interval,
    paired_bootstrap, pass_at_k, pass_hat_k, rank_agreement, ratio, smallest_mean_difference,
    tasks_for_mean_difference, variance, visible_difference, wilson,
};
use serde_json::Value;

fn reference(what: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(include_str!("../reference.json")).unwrap();
    let rows = all[what].as_array().unwrap().clone();
    assert!(!rows.is_empty(), "{what}");
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
fn near(found: f64, wanted: &Value, row: &Value) {
    let wanted = number(wanted);
    let off = (found - wanted).abs();
    assert!(off <= 1e-9 * wanted.abs().max(1.0), "{found} is not {wanted}: {row}");
    // For a small probability, the leading digits must match too.
    assert!(wanted == 0.0 || off <= 1e-9 * wanted.abs() || off < 1e-15, "{found}: {row}");
}

#[track_caller]
fn near_interval(found: Option<[f64; 2]>, row: &Value) {
    let found = found.unwrap();
    near(found[0], &row["interval"][0], row);
    near(found[1], &row["interval"][1], row);
}

#[test]
fn mcnemar_matches_scipy() {
    for row in reference("mcnemar") {
        let (a, b) = (count(&row["a"]), count(&row["b"]));
        near(mcnemar_exact(a, b), &row["exact"], &row);
        near(mcnemar_mid_p(a, b), &row["mid"], &row);
    }
    assert_eq!(mcnemar_exact(0, 0), 1.0);
    assert_eq!(mcnemar_exact(6, 0), 0.03125);
}

#[test]
fn proportion_intervals_match_statsmodels() {
    for row in reference("wilson") {
        let (successes, trials) = (number(&row["successes"]), number(&row["trials"]));
        near_interval(wilson(successes, trials, number(&row["level"])), &row);
    }
    assert_eq!(wilson(0.0, 0.0, 0.95), None);
    for row in reference("difference") {
        let (a, b, tasks) = (count(&row["a"]), count(&row["b"]), count(&row["tasks"]));
        near_interval(difference_interval(a, b, tasks, 0.95), &row);
    }
    assert_eq!(difference_interval(0, 0, 0, 0.95), None);
}

#[test]
fn holm_matches_statsmodels() {
    for row in reference("holm") {
        let found = holm(&numbers(&row["values"]));
        for (found, wanted) in found.iter().zip(row["adjusted"].as_array().unwrap()) {
            near(*found, wanted, &row);
        }
    }
    assert_eq!(holm(&[]), Vec::<f64>::new());
}

#[test]
fn pass_at_k_and_pass_hat_k_match_quotients_of_binomials() {
    for row in reference("pass_k") {
        let (n, c, k) = (count(&row["n"]), count(&row["c"]), count(&row["k"]));
        near(pass_at_k(n, c, k).unwrap(), &row["at"], &row);
        near(pass_hat_k(n, c, k).unwrap(), &row["hat"], &row);
    }
    assert_eq!((pass_at_k(2, 1, 3), pass_hat_k(2, 1, 3)), (None, None));
}

#[test]
fn variance_components_match_the_analysis_of_variance() {
    for row in reference("variance") {
        let tasks: Vec<Vec<f64>> = row["tasks"].as_array().unwrap().iter().map(numbers).collect();
        let found = variance(&tasks).unwrap();
        near(found.between_tasks, &row["between"], &row);
        near(found.between_attempts, &row["within"], &row);
    }
    assert_eq!(variance(&[vec![1.0], vec![0.0]]), None);
    assert_eq!(variance(&[vec![1.0, 0.0]]), None);
}

#[test]
fn kendall_tau_matches_scipy() {
    for row in reference("kendall") {
        let (a, b) = (numbers(&row["a"]), numbers(&row["b"]));
        near(kendall_tau(&a, &b).unwrap(), &row["tau"], &row);
    }
}

#[test]
fn rank_agreement_matches_scipy() {
    for row in reference("rank_agreement") {
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
        near(found.tau, &row["tau"], &row);
        near_interval(found.interval, &row);
    }
}

#[test]
fn bca_matches_scipy() {
    for row in reference("bca") {
        let (draws, jackknife) = (numbers(&row["distribution"]), numbers(&row["jackknife"]));
        near_interval(bca(&draws, number(&row["estimate"]), &jackknife, 0.95), &row);
    }
    assert_eq!(bca(&[0.5; 100], 0.5, &[0.5; 4], 0.95), None);
}

#[test]
fn sign_flip_matches_scipy_permutation_test() {
    for row in reference("signs") {
        let clusters: Vec<Vec<f64>> =
            numbers(&row["values"]).into_iter().map(|value| vec![value]).collect();
        let found = paired_bootstrap(&clusters, Scale::Share, 0.95).unwrap();
        near(found.p_value, &row["p"], &row);
        near(found.p_value, &row["scipy"], &row);
    }
}

#[test]
fn few_amounts_use_students_interval() {
    for row in reference("student") {
        near_interval(mean_interval(&numbers(&row["values"]), Scale::Amount, 0.95), &row);
    }
}

#[test]
fn power_matches_the_exact_test() {
    for row in reference("power") {
        let (d, psi) = (number(&row["difference"]), number(&row["discordant"]));
        let (tasks, alpha) = (count(&row["tasks"]), number(&row["alpha"]));
        near(discordant_power(tasks, d, psi, alpha), &row["power"], &row);
        let wanted = Wanted { alpha, power: 0.8 };
        let needed = discordant_tasks(d, psi, wanted).unwrap();
        assert!(discordant_power(needed, d, psi, alpha) >= 0.8, "{needed}: {row}");
        assert!(discordant_power(needed - 1, d, psi, alpha) < 0.8, "{needed}: {row}");
        // The two functions are inverse, up to whole tasks.
        let seen = discordant_difference(needed, psi, wanted).unwrap();
        assert!(seen <= d + 1e-5, "{seen}: {row}");
    }
    for row in reference("mean_power") {
        let (d, deviation) = (number(&row["difference"]), number(&row["deviation"]));
        let wanted = Wanted::of(count(&row["comparisons"]));
        let found = tasks_for_mean_difference(d, deviation, 1.0, wanted);
        assert_eq!(found, Some(count(&row["tasks"])));
        let seen = smallest_mean_difference(50, deviation, wanted).unwrap();
        near(seen, &row["smallest"], &row);
    }
    let wanted = Wanted::of(1);
    assert_eq!(discordant_tasks(0.0, 0.1, wanted), None);
    assert_eq!(discordant_difference(3, 0.1, wanted), None);
    // A plan of few tasks can detect only differences larger than the usual disagreement. A plan of
    // five tasks can detect none.
    let seen = visible_difference(20, 0.2, wanted).unwrap();
    assert!((discordant_power(20, seen, seen, 0.05) - 0.8).abs() < 1e-3 && seen > 0.2, "{seen}");
    assert_eq!(visible_difference(6, 0.2, wanted).map(|seen| seen > 0.9), Some(true));
    assert_eq!(visible_difference(5, 0.2, wanted), None);
    // Above the number of tasks for which the power is summed, the formula is accurate enough.
    let large = discordant_tasks(0.02, 0.1, wanted).unwrap();
    assert!((discordant_power(large, 0.02, 0.1, 0.05) - 0.8).abs() < 0.01, "{large}");
    // Results never exceed a realistic number of tasks.
    assert_eq!(tasks_for_mean_difference(1e-12, 0.4, 1.0, wanted), None);
    assert_eq!(tasks_for_mean_difference(0.0, 0.4, 1.0, wanted), None);
    // At least six tasks, all in favor of one arm, are needed to call a difference.
    assert_eq!(tasks_for_mean_difference(1.0, 0.0, 1.0, wanted), Some(6));
    assert_eq!(tasks_for_mean_difference(1.0, 0.0, 0.5, wanted), Some(12));
}

#[test]
fn ratio_interval_matches_fieller() {
    let mut unbounded = 0;
    for row in reference("ratio") {
        let tasks = numbers(&row["numerators"]).into_iter().zip(numbers(&row["denominators"]));
        let found = ratio(&tasks.collect::<Vec<_>>(), 0.95).unwrap();
        near(found.value, &row["value"], &row);
        near(found.lower.unwrap(), &row["lower"], &row);
        match found.upper {
            Some(upper) => near(upper, &row["upper"], &row),
            None => {
                assert!(row["upper"].is_null(), "{row}");
                unbounded += 1;
            }
        }
    }
    assert_eq!(unbounded, 1, "few tasks resolved");
}
