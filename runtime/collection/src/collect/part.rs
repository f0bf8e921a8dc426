//! The last resort of a removal that breaks other tests without naming why: the largest part of it that can be found, half by
//! half.

use std::collections::{BTreeSet, VecDeque};

use super::candidate::{Removal, Shared, Stop};

impl Shared<'_> {
    /// A part of what `removal` takes away, with something of what the file is about, that the other tests pass without.
    /// `failed` names tests that fail without all of it.
    ///
    /// # Errors
    /// A rejection where no such part is found; a fault of a sandbox.
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
            let why = format!("without the feature, or any half of it, other tests fail: {failed}");
            Stop::Reject("verify", why)
        })
    }
}

/// Two parts of a list; none of a single one.
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
    fn a_list_is_halved_until_it_is_one() {
        assert_eq!(halves(&[1, 2, 3]), [vec![1, 2], vec![3]]);
        assert_eq!(halves(&[1, 2]), [vec![1], vec![2]]);
        assert!(halves(&[1]).is_empty() && halves(&[]).is_empty());
    }
}
