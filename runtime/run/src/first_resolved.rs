//! Finds the first tree of a trial that resolves its task.

/// Number of evenly spaced trees to grade before bisecting.
const SAMPLE_SIZE: usize = 4;

/// Chooses which trees to grade, one at a time, to find the first one that resolves the task.
///
/// The search grades a sample first. If no resolving tree in the sample is followed by a
/// non-resolving one, the search bisects. Otherwise, it grades every tree in order until one
/// resolves.
#[derive(Debug, Clone)]
pub struct FirstResolvedSearch {
    /// Verdicts in tree order, or `None` if not graded yet.
    verdicts: Vec<Option<bool>>,
}

impl FirstResolvedSearch {
    /// `tree_count` is the number of distinct trees. `is_last_resolved` is the trial's own verdict,
    /// which belongs to the last tree.
    pub fn new(tree_count: usize, is_last_resolved: bool) -> Self {
        let mut verdicts = vec![None; tree_count];
        if let Some(end) = verdicts.last_mut() {
            *end = Some(is_last_resolved);
        }
        Self { verdicts }
    }

    pub fn record_verdict(&mut self, tree: usize, resolved: bool) {
        if let Some(verdict) = self.verdicts.get_mut(tree) {
            *verdict = Some(resolved);
        }
    }

    /// Returns the next tree to grade, or `None` if the search is complete.
    pub fn next_tree(&self) -> Option<usize> {
        let all = self.verdicts.len();
        let unknown = |tree: &usize| self.verdicts.get(*tree).is_some_and(Option::is_none);
        let sample = (1..SAMPLE_SIZE).map(|part| (all * part / SAMPLE_SIZE).saturating_sub(1));
        if let Some(tree) = sample.into_iter().find(unknown) {
            return Some(tree);
        }
        let first = self.verdicts.iter().position(|verdict| *verdict == Some(true));
        if !self.is_monotone() {
            let end = first.unwrap_or(all);
            return (0..end).find(unknown);
        }
        let first = first?;
        let last_failed =
            self.verdicts[..first].iter().rposition(|verdict| *verdict == Some(false));
        let begin = last_failed.map_or(0, |failed| failed + 1);
        (begin < first).then(|| begin + (first - begin) / 2)
    }

    /// Returns the first graded tree that resolves, and whether every tree before it was graded.
    pub fn first_resolved(&self) -> (Option<usize>, bool) {
        let first = self.verdicts.iter().position(|verdict| *verdict == Some(true));
        let before = &self.verdicts[..first.unwrap_or(self.verdicts.len())];
        (first, before.iter().all(Option::is_some))
    }

    fn is_monotone(&self) -> bool {
        let known: Vec<bool> = self.verdicts.iter().copied().flatten().collect();
        known.is_sorted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the search. Returns the first resolving tree found, whether every earlier tree was
    /// graded, and the number of graded trees.
    fn search(tree_verdicts: &[bool]) -> (Option<usize>, bool, usize) {
        let mut search =
            FirstResolvedSearch::new(tree_verdicts.len(), tree_verdicts.last() == Some(&true));
        let mut graded = 0;
        while let Some(tree) = search.next_tree() {
            assert!(search.verdicts[tree].is_none(), "{tree} graded twice");
            search.record_verdict(tree, tree_verdicts[tree]);
            graded += 1;
            assert!(graded <= tree_verdicts.len());
        }
        let (first, exact) = search.first_resolved();
        (first, exact, graded)
    }

    #[test]
    fn lasting_solution_is_found_by_bisection() {
        for all in 1..60 {
            for first in 0..all {
                let truth: Vec<bool> = (0..all).map(|tree| tree >= first).collect();
                let (found, _, graded) = search(&truth);
                assert_eq!(found, Some(first), "{all}");
                assert!(graded <= 10, "{all} {first}: {graded}");
            }
            assert_eq!(search(&vec![false; all]).0, None);
        }
        assert_eq!(search(&[]), (None, true, 0));
    }

    #[test]
    fn lost_solution_is_found_by_linear_search() {
        // The ninth to the thirtieth tree resolve the task; later trees do not.
        let truth: Vec<bool> = (0..40).map(|tree| (8..30).contains(&tree)).collect();
        let (found, exact, _) = search(&truth);
        assert_eq!((found, exact), (Some(8), true));
    }
}
