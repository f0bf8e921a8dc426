//! The last resort if removing code breaks other tests for an unknown reason. Bisection looks for a
//! part of the code that can be removed.

use std::collections::{BTreeSet, VecDeque};

use super::{context::CandidateContext, outcome::StopReason, removal::Removal};

impl CandidateContext<'_> {
    /// Returns a part of `removal` that contains at least one top and that can be removed without
    /// breaking other tests. `failed_tests` lists the tests that fail if all of `removal` is
    /// removed.
    ///
    /// # Errors
    /// A rejection if no such part is found, or a sandbox fault.
    pub(super) async fn find_working_part(
        &self,
        file: &str,
        removal: &Removal,
        failed_tests: &str,
    ) -> Result<Removal, StopReason> {
        let all: Vec<usize> = removal.extracted.all_objects().into_iter().collect();
        let mut open: VecDeque<Vec<usize>> = halves(&all).into();
        let mut best: Option<Removal> = None;
        for _ in 0..self.settings.take_away.halvings {
            let Some(chunk) = open.pop_front() else { break };
            let mut wanted: BTreeSet<usize> = chunk.iter().copied().collect();
            wanted.extend(best.iter().flat_map(|best| best.extracted.all_objects()));
            let mut part = removal.clone();
            part.extracted.retain_only(&wanted);
            let holds = match self.carve(file, &mut part) {
                Ok(()) => self.run_other_tests(file, &part).await?.is_ok(),
                Err(_) => false,
            };
            match holds {
                true => best = Some(part),
                false => halves(&chunk).into_iter().rev().for_each(|half| open.push_front(half)),
            }
        }
        let contains_other_tops =
            |part: &Removal| !part.extracted.all_objects().is_disjoint(&removal.other_files.tops);
        best.filter(contains_other_tops).ok_or_else(|| {
            let reason = format!(
                "other tests fail without the feature, and no smaller part can be removed: {failed_tests}"
            );
            StopReason::Reject("verify", reason)
        })
    }
}

/// Splits a list into two halves. Returns no halves if the list has a single element.
fn halves(list: &[usize]) -> Vec<Vec<usize>> {
    match list.len() {
        0 | 1 => Vec::new(),
        len => list.chunks(len.div_ceil(2)).map(<[usize]>::to_vec).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_a_single_element_are_empty() {
        assert_eq!(halves(&[1, 2, 3]), [vec![1, 2], vec![3]]);
        assert_eq!(halves(&[1, 2]), [vec![1], vec![2]]);
        assert!(halves(&[1]).is_empty() && halves(&[]).is_empty());
    }
}
