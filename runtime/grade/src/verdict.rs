//! From statuses and evidence to a verdict.

use std::collections::BTreeMap;

use proctor_types::{
    Evidence, Fault, Integrity, PolicyVerdict, Task, TestGroup, TestStatus, VERDICT_SCHEMA, Verdict,
};

use crate::policy::Policy;

/// Draws up the verdict. `strict` asks that every fail-to-pass and pass-to-pass test passed, in a
/// run with a proper end, and that no evidence speaks against the run itself.
pub(crate) fn draw_up(
    task: &Task,
    reported: &BTreeMap<String, TestStatus>,
    complete: bool,
    evidence: Vec<Evidence>,
) -> Result<Verdict, Fault> {
    let policy = Policy::get()?;
    let status = |id: &String| reported.get(id).copied().unwrap_or(TestStatus::Missing);
    let group = |ids: &[String]| {
        let (passed, failed) = ids.iter().cloned().partition(|id| status(id) == TestStatus::Passed);
        TestGroup { passed, failed }
    };
    let (f2p, p2p) = (group(&task.fail_to_pass), group(&task.pass_to_pass));
    let meanings = || evidence.iter().map(|evidence| (evidence, policy.meaning(evidence)));
    let integrity =
        meanings().map(|(_, meaning)| meaning.integrity).max().unwrap_or(Integrity::Clean);
    let blocking = meanings().find(|(_, meaning)| meaning.blocks).map(|(evidence, _)| evidence);
    let (resolved, why) = match blocking {
        Some(evidence) => (false, format!("{}: {}", evidence.kind, evidence.what)),
        None if task.fail_to_pass.is_empty() => (false, "the task has no fail-to-pass test".into()),
        None if !complete => (false, "the run has no proper end".into()),
        None => why(&f2p, &p2p),
    };
    let strict = PolicyVerdict { name: None, version: None, resolved, why };
    let of = f2p.passed.len() + f2p.failed.len();
    Ok(Verdict {
        schema_version: VERDICT_SCHEMA,
        task: task.id.clone(),
        resolved,
        passed_rate: if of == 0 { 0.0 } else { f2p.passed.len() as f64 / of as f64 },
        tests: task
            .fail_to_pass
            .iter()
            .chain(&task.pass_to_pass)
            .map(|id| (id.clone(), status(id)))
            .collect(),
        fail_to_pass: f2p,
        pass_to_pass: p2p,
        policies: BTreeMap::from([("strict".to_owned(), strict)]),
        integrity,
        evidence,
    })
}

fn why(f2p: &TestGroup, p2p: &TestGroup) -> (bool, String) {
    let total = |group: &TestGroup| group.passed.len() + group.failed.len();
    let said = format!(
        "{} of {} fail-to-pass and {} of {} pass-to-pass tests passed",
        f2p.passed.len(),
        total(f2p),
        p2p.passed.len(),
        total(p2p)
    );
    (f2p.failed.is_empty() && p2p.failed.is_empty(), said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{self, note};

    fn task(f2p: &[&str]) -> Task {
        serde_json::from_value(serde_json::json!({
            "schema_version": 1, "id": "t", "statement": "", "environment": {},
            "fail_to_pass": f2p, "pass_to_pass": ["p"], "test_command": []
        }))
        .unwrap()
    }

    fn reported(f: TestStatus) -> BTreeMap<String, TestStatus> {
        BTreeMap::from([("f".to_owned(), f), ("p".to_owned(), TestStatus::Passed)])
    }

    #[test]
    fn resolved_means_that_every_test_passed() {
        let good = draw_up(&task(&["f"]), &reported(TestStatus::Passed), true, vec![]).unwrap();
        assert!(good.resolved && good.integrity == Integrity::Clean);
        for status in [TestStatus::Skipped, TestStatus::Xpassed, TestStatus::Missing] {
            let bad = draw_up(&task(&["f"]), &reported(status), true, vec![]).unwrap();
            assert!(!bad.resolved);
            assert_eq!(bad.passed_rate, 0.0);
        }
        let absent = draw_up(&task(&["f", "g"]), &reported(TestStatus::Passed), true, vec![]);
        let absent = absent.unwrap();
        assert!(!absent.resolved);
        assert_eq!(absent.passed_rate, 0.5);
        assert_eq!(absent.tests["g"], TestStatus::Missing);
    }

    #[test]
    fn nothing_to_pass_and_no_end_are_not_resolved() {
        let none = draw_up(&task(&[]), &reported(TestStatus::Passed), true, vec![]).unwrap();
        assert!(!none.resolved);
        let open = draw_up(&task(&["f"]), &reported(TestStatus::Passed), false, vec![]).unwrap();
        assert!(!open.resolved);
    }

    #[test]
    fn evidence_counts_as_the_policy_says() {
        let passed = reported(TestStatus::Passed);
        let with =
            |kind: &str| draw_up(&task(&["f"]), &passed, true, vec![note(kind, "x")]).unwrap();
        let edited = with(evidence::TEST_RESTORED);
        assert!(edited.resolved && edited.integrity == Integrity::Clean);
        let canary = with(evidence::CANARY_PASSED);
        assert!(!canary.resolved && canary.integrity == Integrity::Suspect);
        let unheard = with("unheard_of");
        assert!(!unheard.resolved && unheard.integrity == Integrity::Suspect);
    }
}
