//! Chooses the lite set, a random sample of the tasks.

use std::collections::BTreeSet;

use super::{outcome::VerifiedTask, seeded_rng::SeededRng, settings::LiteSettings};

/// The category of tasks in the lite set.
pub(super) const LITE_CATEGORY: &str = "lite";

/// Marks a random sample of both levels' tasks as lite. Each level's sample is proportional to its
/// number of tasks. Tasks of FeatureBench's size are preferred.
pub(super) fn mark_lite_tasks(
    levels: [&mut [VerifiedTask]; 2],
    seed: &str,
    settings: &LiteSettings,
) {
    let of_each = sample_sizes([levels[0].len(), levels[1].len()], settings);
    for (index, (level, count)) in levels.into_iter().zip(of_each).enumerate() {
        let mut seeded = SeededRng::from_parts(&[seed, LITE_CATEGORY, &(index + 1).to_string()]);
        let ids = |meets: bool| {
            let some = level.iter().filter(|made| made.facts.meets_minima == meets);
            some.map(|made| made.facts.task.clone()).collect::<BTreeSet<_>>().into_iter().collect()
        };
        let mut drawn: Vec<String> = seeded.sample(ids(true), count);
        drawn.extend(seeded.sample(ids(false), count - drawn.len()));
        for made in level.iter_mut().filter(|made| drawn.contains(&made.facts.task)) {
            made.facts.lite = true;
            made.task.categories.push(LITE_CATEGORY.to_owned());
        }
    }
}

/// Returns each level's sample size. It is proportional to the level's number of tasks, but at
/// least one if the level has any tasks.
fn sample_sizes(counts: [usize; 2], settings: &LiteSettings) -> [usize; 2] {
    let all = counts[0] + counts[1];
    let wanted = (settings.share * all as f64).ceil() as usize;
    let wanted = wanted.max(settings.fewest).min(settings.most).min(all);
    let exact = wanted as f64 * counts[0] as f64 / all.max(1) as f64;
    let has = |count: usize| usize::from(count > 0 && wanted > 1);
    let first = (exact.round() as usize).max(has(counts[0])).min(wanted - has(counts[1]));
    [first, wanted - first]
}

#[cfg(test)]
mod tests {
    use super::*;

    const LITE_SETTINGS: LiteSettings = LiteSettings { share: 0.15, fewest: 5, most: 30 };

    fn verified_task(id: usize, meets_minima: bool) -> VerifiedTask {
        let task = serde_json::json!({"schema_version": 1, "id": format!("t{id:02}"), "statement": "",
            "environment": {"base": "host"}, "fail_to_pass": [], "test_command": ["pytest"]});
        let facts = serde_json::json!({"task": format!("t{id:02}"), "file": "", "policy": "", "words": 0, "lines": 0,
            "files": 0, "functions": 0, "tops": [], "fail_to_pass": 0, "pass_to_pass": 0, "pass_to_pass_files": 0,
            "pass_rate": 0.0, "leak_score": 0.0, "meets_minima": meets_minima, "lite": false});
        VerifiedTask {
            task: serde_json::from_value(task).unwrap(),
            row: serde_json::Value::Null,
            facts: serde_json::from_value(facts).unwrap(),
            solvability: Default::default(),
        }
    }

    #[test]
    fn sample_sizes_are_proportional_to_levels() {
        let of = |counts| sample_sizes(counts, &LITE_SETTINGS);
        // Same as FeatureBench's lite set: 30 of 200 tasks.
        assert_eq!(of([170, 30]), [26, 4]);
        assert_eq!(of([1000, 1000]), [15, 15]);
        assert_eq!(of([40, 1]), [6, 1]);
        assert_eq!(of([3, 9]), [1, 4]);
        assert_eq!(of([0, 9]), [0, 5]);
        assert_eq!(of([2, 1]), [2, 1]);
        assert_eq!((of([1, 0]), of([0, 0])), ([1, 0], [0, 0]));
    }

    #[test]
    fn marked_tasks_are_reproducible_and_larger_tasks_come_first() {
        let draw = |seed: &str| {
            let mut first: Vec<VerifiedTask> =
                (0..20).map(|id| verified_task(id, id % 8 == 0)).collect();
            let mut second: Vec<VerifiedTask> =
                (20..30).map(|id| verified_task(id, true)).collect();
            mark_lite_tasks([&mut first, &mut second], seed, &LITE_SETTINGS);
            let lite =
                |made: &&VerifiedTask| made.facts.lite && made.task.categories == [LITE_CATEGORY];
            let names = |level: &[VerifiedTask]| {
                level.iter().filter(lite).map(|made| made.facts.task.clone()).collect::<Vec<_>>()
            };
            (names(&first), names(&second))
        };
        let (first, second) = draw("0");
        assert_eq!(
            (first.as_slice(), second.len()),
            (&["t00", "t08", "t16"].map(String::from)[..], 2)
        );
        assert_eq!(draw("0"), (first, second));
        assert!((1..9).any(|seed| draw(&seed.to_string()).1 != draw("0").1));
    }
}
