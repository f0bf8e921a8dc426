//! Finds the arms that are on the Pareto front of cost and score.

/// Returns whether each point (cost, score) is on the Pareto front. A point is not on the front if
/// another point costs no more, scores no less, and is better in at least one of the two. If two
/// points are equal, either both or neither of them are on the front.
pub fn pareto_front(points: &[(f64, f64)]) -> Vec<bool> {
    let beats = |one: &(f64, f64), other: &(f64, f64)| {
        one.0 <= other.0 && one.1 >= other.1 && (one.0 < other.0 || one.1 > other.1)
    };
    points.iter().map(|point| !points.iter().any(|other| beats(other, point))).collect()
}

#[cfg(test)]
mod tests {
    use super::pareto_front;

    #[test]
    fn pareto_front_contains_only_undominated_points() {
        let cheap = (0.1, 0.2);
        let good = (0.5, 0.6);
        let best = (0.9, 0.7);
        // In this order: more expensive than `good` and worse; as good as `best` but more
        // expensive; as expensive as `cheap` but worse.
        let beaten = [(0.6, 0.5), (1.0, 0.7), (0.1, 0.1)];
        let all = [cheap, beaten[0], good, beaten[1], best, beaten[2]];
        assert_eq!(pareto_front(&all), [true, false, true, false, true, false]);
        assert_eq!(
            pareto_front(&[good, good]),
            [true, true],
            "equal points do not beat each other"
        );
        assert!(pareto_front(&[]).is_empty());
    }
}
