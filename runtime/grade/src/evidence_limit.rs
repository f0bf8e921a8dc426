//! Limits how much evidence a verdict lists.
//!
//! Graded code can produce any amount of evidence: a test that writes a thousand files produces a
//! thousand items. The limit keeps a verdict readable and small enough for a journal. Omitted items
//! are counted.

use std::collections::BTreeMap;

use proctor_types::{Evidence, Fault, Verdict};

use crate::policy::Policy;

/// Keeps the first items of evidence of each kind and counts the rest. At least one item of each
/// kind remains, so the integrity does not change.
///
/// Call this once, after all evidence is collected, because the comparison with gold's run needs
/// the full list.
///
/// # Errors
///
/// The grader's own policy cannot be read, which means that the build is defective.
pub fn limit_evidence(verdict: &mut Verdict) -> Result<(), Fault> {
    let limits = &Policy::get()?.limits;
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut left_out: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut kept = Vec::new();
    for mut evidence in std::mem::take(&mut verdict.evidence) {
        let count = seen.entry(evidence.kind.clone()).or_default();
        *count += 1;
        if *count <= limits.evidence_per_kind {
            truncate_text(&mut evidence.what, limits.evidence_characters);
            kept.push(evidence);
        } else {
            left_out.entry(evidence.kind).or_default().extend(evidence.steps);
        }
    }
    for (kind, mut steps) in left_out {
        let what = format!("and {} more", seen[&kind] - limits.evidence_per_kind);
        steps.sort_unstable();
        steps.dedup();
        kept.push(Evidence::new(kind, what, steps));
    }
    verdict.evidence = kept;
    Ok(())
}

fn truncate_text(text: &mut String, max_characters: usize) {
    let Some((at, _)) = text.char_indices().nth(max_characters) else { return };
    let left = text[at..].chars().count();
    text.truncate(at);
    text.push_str(&format!("... ({left} more characters)"));
}

#[cfg(test)]
mod tests {
    use proctor_types::Integrity;

    use super::*;
    use crate::evidence::new_evidence;

    fn verdict(evidence: Vec<Evidence>) -> Verdict {
        let mut verdict: Verdict = serde_json::from_value(serde_json::json!({
            "schema_version": 1, "task": "t", "resolved": false, "passed_rate": 0.0,
            "fail_to_pass": {"passed": [], "failed": []}, "pass_to_pass": {"passed": [], "failed": []},
            "tests": {}, "policies": {}, "integrity": "suspect", "evidence": []
        }))
        .unwrap();
        verdict.evidence = evidence;
        verdict
    }

    #[test]
    fn limit_evidence_counts_omitted_items_by_kind() {
        let limit = Policy::get().unwrap().limits.evidence_per_kind;
        let many = |kind: &str, count: usize| {
            let kind = kind.to_owned();
            (0..count).map(move |number| Evidence {
                steps: vec![number as u64 / 2],
                ..new_evidence(&kind, number.to_string())
            })
        };
        let all = many("a", limit + 3).chain(many("b", 1)).chain(many("c", limit)).collect();
        let mut limited = verdict(all);
        limit_evidence(&mut limited).unwrap();
        let of = |kind: &str| limited.evidence.iter().filter(|one| one.kind == kind).count();
        assert_eq!((of("a"), of("b"), of("c")), (limit + 1, 1, limit));
        let more = limited.evidence.last().unwrap();
        assert_eq!((more.kind.as_str(), more.what.as_str()), ("a", "and 3 more"));
        let half = limit as u64 / 2;
        assert_eq!(more.steps, [half, half + 1]);
        assert_eq!(limited.integrity, Integrity::Suspect);
    }

    #[test]
    fn limit_evidence_truncates_long_strings_at_character_boundaries() {
        let limit = Policy::get().unwrap().limits.evidence_characters;
        let mut limited = verdict(vec![
            new_evidence("a", "\u{e9}".repeat(limit + 7)),
            new_evidence("a", "short"),
        ]);
        limit_evidence(&mut limited).unwrap();
        let cut = &limited.evidence[0].what;
        assert!(cut.ends_with("\u{e9}... (7 more characters)"), "{cut}");
        assert_eq!(limited.evidence[1].what, "short");
    }
}
