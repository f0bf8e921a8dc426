//! Rejects level-2 tasks that request the same objects as another task.

use std::collections::BTreeMap;

use super::outcome::{Outcome, Reject};

/// If several tasks request the same objects, keeps the task with the most tests and rejects the
/// others.
pub(super) fn reject_duplicates(outcomes: &mut [Outcome]) {
    let mut best: BTreeMap<Vec<String>, (usize, String)> = BTreeMap::new();
    for outcome in outcomes.iter() {
        let Outcome::Task(made) = outcome else { continue };
        let facts = &made.facts;
        let one = (facts.fail_to_pass, facts.file.clone());
        let kept = best.entry(facts.tops.clone()).or_insert_with(|| one.clone());
        if one.0 > kept.0 {
            *kept = one;
        }
    }
    for outcome in outcomes {
        let Outcome::Task(made) = outcome else { continue };
        let file = made.facts.file.clone();
        let Some((_, kept)) = best.get(&made.facts.tops).filter(|(_, kept)| *kept != file) else {
            continue;
        };
        let reason = format!(
            "the task requests the same objects as {kept}, which has at least as many tests"
        );
        *outcome = Outcome::Reject(Reject { file, stage: "level_2: same".to_owned(), reason });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::outcome::{TaskMetrics, VerifiedTask};

    #[test]
    fn reject_duplicates_keeps_the_task_with_the_most_tests() {
        let task = |file: &str, top: &str, fail_to_pass| {
            let tops = vec![top.to_owned()];
            let facts =
                TaskMetrics { file: file.into(), tops, fail_to_pass, ..TaskMetrics::default() };
            let task = serde_json::json!({"schema_version": 1, "id": file, "statement": "",
                "environment": {"base": "host"}, "fail_to_pass": [], "test_command": ["pytest"]});
            let task = serde_json::from_value(task).unwrap();
            Outcome::Task(Box::new(VerifiedTask {
                task,
                row: serde_json::Value::Null,
                facts,
                solvability: Default::default(),
            }))
        };
        let mut outcomes = [
            task("a.py", "f", 2),
            task("b.py", "f", 3),
            task("c.py", "g", 1),
            task("d.py", "f", 3),
        ];
        reject_duplicates(&mut outcomes);
        let left: Vec<&str> = outcomes
            .iter()
            .filter_map(|outcome| match outcome {
                Outcome::Task(made) => Some(made.facts.file.as_str()),
                Outcome::Reject(_) => None,
            })
            .collect();
        assert_eq!(left, ["b.py", "c.py"]);
        let Outcome::Reject(reject) = &outcomes[0] else { panic!("{outcomes:?}") };
        assert!(reject.reason.contains("the same objects as b.py"), "{reject:?}");
    }
}
