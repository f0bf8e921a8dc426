//! Measures whether two sets of tasks rank the same arms in the same order.

use std::cmp::Ordering;

use fastrand::Rng;

use crate::{
    Interval,
    resampling::{Cluster, resample_count, seeded_rng},
};

/// The agreement of two rankings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankAgreement {
    /// Kendall's tau-b in [-1, 1]: 1 means the same order, -1 the reverse.
    pub tau: f64,
    /// Percentile interval of the bootstrap over tasks. `None` if most resamples define no order.
    pub interval: Option<Interval>,
}

/// Returns Kendall's tau-b of two lists of scores, which accounts for ties (Kendall 1945). `None`
/// if all scores of a list are equal.
pub fn kendall_tau(a: &[f64], b: &[f64]) -> Option<f64> {
    let (mut sum, mut in_a, mut in_b) = (0_i64, 0_i64, 0_i64);
    let pairs: Vec<(&f64, &f64)> = a.iter().zip(b).collect();
    for (index, (one_a, one_b)) in pairs.iter().enumerate() {
        for (other_a, other_b) in pairs.iter().take(index) {
            let (of_a, of_b) = (sign(**one_a, **other_a), sign(**one_b, **other_b));
            sum += of_a * of_b;
            in_a += of_a * of_a;
            in_b += of_b * of_b;
        }
    }
    let untied = in_a as f64 * in_b as f64;
    (untied > 0.0).then(|| sum as f64 / untied.sqrt())
}

fn sign(a: f64, b: f64) -> i64 {
    match a.total_cmp(&b) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }
}

/// Compares two rankings of the same arms by their mean scores on two sets of tasks. Each row is a
/// task with a score for each arm. With `is_nested` the second set contains the first: `b` then
/// holds the remaining tasks, and each resample draws both parts and joins them.
///
/// The interval is the percentile bootstrap over tasks: arms are fixed, tasks are a sample. Returns
/// `None` if a set is empty or all arms are equal on one of them.
pub fn rank_agreement(
    a: &[Vec<f64>],
    b: &[Vec<f64>],
    is_nested: bool,
    level: f64,
) -> Option<RankAgreement> {
    let (a, b) = (sorted_rows(a), sorted_rows(b));
    let tau = tau_of_means(&as_slices(&a), &as_slices(&b), is_nested)?;
    let scores = |set: f64, rows: &[Vec<f64>]| -> Vec<Cluster> {
        rows.iter().flatten().map(|score| (*score, set)).collect()
    };
    let mut rng = seeded_rng("ranks", &[scores(0.0, &a), scores(1.0, &b)].concat());
    let wanted = resample_count(a.len() + b.len());
    let mut taus: Vec<f64> = Vec::with_capacity(wanted);
    for _ in 0..wanted {
        let (drawn_a, drawn_b) = (resample_rows(&a, &mut rng), resample_rows(&b, &mut rng));
        taus.extend(tau_of_means(&drawn_a, &drawn_b, is_nested));
    }
    taus.sort_by(f64::total_cmp);
    let end = |share: f64| {
        let index = (share * (taus.len() as f64 - 1.0)).round() as usize;
        taus.get(index).copied()
    };
    let half = (1.0 - level) / 2.0;
    let ends = end(half).zip(end(1.0 - half));
    let interval = ends.filter(|_| taus.len() * 2 > wanted).map(|(lower, upper)| [lower, upper]);
    Some(RankAgreement { tau, interval })
}

/// Returns the rows in an order that does not depend on the input order.
fn sorted_rows(rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut rows = rows.to_vec();
    rows.sort_by(|a, b| {
        let scores = a.iter().zip(b).map(|(one, other)| one.total_cmp(other));
        scores.fold(Ordering::Equal, Ordering::then)
    });
    rows
}

fn as_slices(rows: &[Vec<f64>]) -> Vec<&[f64]> {
    rows.iter().map(Vec::as_slice).collect()
}

fn resample_rows<'r>(rows: &'r [Vec<f64>], rng: &mut Rng) -> Vec<&'r [f64]> {
    rows.iter().map(|_| rows[rng.usize(0..rows.len())].as_slice()).collect()
}

fn tau_of_means(a: &[&[f64]], b: &[&[f64]], is_nested: bool) -> Option<f64> {
    let second = match is_nested {
        true => [a, b].concat(),
        false => b.to_vec(),
    };
    kendall_tau(&means(a), &means(&second))
}

/// Returns each arm's mean score times a billion, rounded, so that a different summation order does
/// not break a tie.
fn means(rows: &[&[f64]]) -> Vec<f64> {
    let arms = rows.iter().map(|row| row.len()).min().unwrap_or(0);
    let mean = |arm: usize| {
        let sum: f64 = rows.iter().map(|row| row[arm]).sum();
        (sum / rows.len() as f64 * 1e9).round()
    };
    (0..arms).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_rows(arms: &[f64], count: usize) -> Vec<Vec<f64>> {
        // An arm resolves task number n if the arm's rate is above n / count.
        let score =
            |task: usize, share: f64| f64::from(u8::from(share * count as f64 > task as f64));
        (0..count).map(|task| arms.iter().map(|share| score(task, *share)).collect()).collect()
    }

    #[test]
    fn rank_agreement_is_one_for_equal_and_minus_one_for_reversed_rankings() {
        let (up, down) = (sample_rows(&[0.1, 0.4, 0.9], 50), sample_rows(&[0.9, 0.4, 0.1], 50));
        let alike = rank_agreement(&up, &sample_rows(&[0.2, 0.3, 0.8], 60), false, 0.95).unwrap();
        assert_eq!(alike.tau, 1.0);
        let [lower, upper] = alike.interval.unwrap();
        assert!(lower > 0.3 && upper == 1.0, "{alike:?}");
        let against = rank_agreement(&up, &down, false, 0.95).unwrap();
        assert_eq!(against.tau, -1.0);
        assert!(against.interval.unwrap()[1] < 0.0, "{against:?}");
    }

    #[test]
    fn rank_agreement_does_not_depend_on_task_order() {
        let (a, b) = (sample_rows(&[0.3, 0.5, 0.4], 20), sample_rows(&[0.2, 0.5, 0.6], 30));
        let turned: Vec<Vec<f64>> = a.iter().rev().cloned().collect();
        let of = |a: &[Vec<f64>]| rank_agreement(a, &b, true, 0.95);
        assert_eq!(of(&a), of(&turned));
    }

    #[test]
    fn nested_rank_agreement_compares_a_part_with_the_whole() {
        // The rest alone ranks the arms in reverse, but the whole set does not.
        let (lite, rest) = (sample_rows(&[0.0, 0.5, 1.0], 40), sample_rows(&[0.2, 0.1, 0.0], 10));
        assert_eq!(rank_agreement(&lite, &rest, true, 0.95).unwrap().tau, 1.0);
        assert_eq!(rank_agreement(&lite, &rest, false, 0.95).unwrap().tau, -1.0);
    }

    #[test]
    fn rank_agreement_is_none_without_an_order() {
        let equal = sample_rows(&[0.5, 0.5], 10);
        assert_eq!(rank_agreement(&equal, &sample_rows(&[0.1, 0.9], 10), false, 0.95), None);
        assert_eq!(rank_agreement(&[], &equal, true, 0.95), None);
        assert_eq!(kendall_tau(&[1.0], &[2.0]), None);
    }
}
