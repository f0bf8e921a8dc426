//! The last resort for a removal that breaks other tests without naming a cause: bisects for the
//! largest part that works.

use std::collections::{BTreeSet, VecDeque};

use super::candidate::{Removal, Shared, Stop};

impl Shared<'_> {
    /// A part of `removal` that still contains something the file is about, and with which the
    /// other tests pass. `failed` lists tests that fail with the whole removal.
    ///
    /// # Errors
    /// A rejection if there is no such part, or a sandbox fault.
    pub(super) async fn part_of(
        &self,
        file: &str,
        removal: &Removal,
        failed: &str,
    ) -> Result<Removal, Stop> {
        let all: Vec<usize> = removal.extracted.all().into_iter().collect();
        let mut open: VecDeque<Vec<usize>> = halves(&all).into();
        let mut best: Option<Removal> = None;
        for _ in 0..self.settings.take_away.halvings {
            let Some(chunk) = open.pop_front() else { break };
            let mut wanted: BTreeSet<usize> = chunk.iter().copied().collect();
            wanted.extend(best.iter().flat_map(|best| best.extracted.all()));
            let mut part = removal.clone();
            part.extracted.keep_to(&wanted);
            let holds = match self.carve(file, &mut part) {
                Ok(()) => self.try_out(file, &part).await?.is_ok(),
                Err(_) => false,
            };
            match holds {
                true => best = Some(part),
                false => halves(&chunk).into_iter().rev().for_each(|half| open.push_front(half)),
            }
        }
        let is_about_it = |part: &Removal| !part.extracted.all().is_disjoint(&removal.others.tops);
        best.filter(is_about_it).ok_or_else(|| {
            let why = format!("other tests fail without the feature or any half of it: {failed}");
            Stop::Reject("verify", why)
        })
    }
}

/// The two halves of a list; empty for a single element.
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
    fn parts_halve_a_list_down_to_one() {
        assert_eq!(halves(&[1, 2, 3]), [vec![1, 2], vec![3]]);
        assert_eq!(halves(&[1, 2]), [vec![1], vec![2]]);
        assert!(halves(&[1]).is_empty() && halves(&[]).is_empty());
    }
}
