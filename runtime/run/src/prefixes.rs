//! The state of a trial after each of its steps: its spending and its tree.

use proctor_record::{
    Blobs, PatchPolicy, RecordError, Remedy, RunDir, Tree, collect_patch, read_journal,
};
use proctor_types::{Event, Fault, FaultLayer, TrialId, remove_discarded_events};

use crate::error::record_fault;

/// The resource that a hypothetical smaller limit restricts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefixBudget {
    /// Number of delivered responses.
    Steps,
    /// Input and output tokens, as billed by the endpoint.
    Tokens,
    /// Cost in US dollars.
    Cost,
    /// Wall-clock time since the agent's start.
    Seconds,
}

/// The steps of a finished trial, from its journal and snapshots.
#[derive(Debug)]
pub struct TrialPrefixes {
    /// The steps, in order.
    steps: Vec<Step>,
    /// The tree that the agent started with.
    base_tree: String,
    /// The tree that the trial's patch was computed from.
    final_tree: String,
    blobs: Blobs,
}

#[derive(Debug, Clone, PartialEq)]
struct Step {
    /// The input and output tokens of all responses up to this step's.
    total_tokens: u64,
    total_cost: f64,
    /// Wall time without the time that was lost to the endpoint.
    elapsed_seconds: f64,
    /// The tree after the step's tools ran.
    tree: String,
}

impl TrialPrefixes {
    /// Reads a trial's steps.
    ///
    /// # Errors
    /// Fails if the journal is incomplete, because the lost part may contain a step.
    pub fn read(run: &RunDir, id: &TrialId) -> Result<Self, Fault> {
        let dir = run.trial_dir(id);
        let reading = read_journal(dir.trajectory_path()).map_err(record_fault)?;
        let damaged = |why: String| {
            Fault::new(FaultLayer::Record, format!("{id}: {why}"))
                .hint(Remedy::RestoreFromCopy.hint())
                .into_permanent()
        };
        if let Some(lost) = reading.first_lost_line() {
            return Err(damaged(lost.to_string()));
        }
        let (mut steps, mut base, mut tree): (Vec<Step>, _, _) = (Vec::new(), None, String::new());
        let (mut begun, mut tokens, mut cost, mut last) = (0.0, 0, 0.0, 0.0);
        for envelope in &remove_discarded_events(reading.events) {
            match &envelope.event {
                Event::TrialForked { snapshot, .. } => tree.clone_from(snapshot),
                // The agent's clock did not run between these two events.
                Event::TrialResumed { .. } => begun += envelope.t_mono - last,
                Event::SetupFinished { base_snapshot, .. } => {
                    base = Some(base_snapshot.clone());
                    tree.clone_from(base_snapshot);
                    begun = envelope.t_mono;
                }
                Event::ModelAttempted {
                    usage,
                    cost_usd,
                    error,
                    wait_seconds,
                    lost_seconds,
                    ..
                } => {
                    // As in a real run, failed attempts and lost time count toward no limit.
                    if error.is_none() {
                        tokens += usage.map_or(0, |usage| usage.input + usage.output);
                        cost += cost_usd.unwrap_or_default();
                    }
                    begun += wait_seconds + lost_seconds;
                }
                _ => {}
            }
            last = envelope.t_mono;
            // A step starts with its response. If the scaffold calls no model, a step starts
            // whenever the scaffold counts a step.
            while (steps.len() as u64) < envelope.step {
                let seconds = (envelope.t_mono - begun).max(0.0);
                steps.push(Step {
                    total_tokens: tokens,
                    total_cost: cost,
                    elapsed_seconds: seconds,
                    tree: tree.clone(),
                });
            }
            if let Event::SnapshotTaken { snapshot, .. } = &envelope.event
                && base.is_some()
            {
                tree.clone_from(snapshot);
                if let Some(step) = steps.last_mut() {
                    step.tree.clone_from(snapshot);
                }
            }
        }
        let base =
            base.ok_or_else(|| damaged("the journal does not name the initial file tree".into()))?;
        Ok(Self { steps, base_tree: base, final_tree: tree, blobs: run.trial_blobs(&dir) })
    }

    /// Returns the number of steps.
    pub fn step_count(&self) -> u64 {
        self.steps.len() as u64
    }

    /// Returns the step after which a limit would have ended the trial: the first step that
    /// reaches it, including its response. `None` if the trial ended earlier.
    pub fn step_reaching(&self, budget: PrefixBudget, limit: f64) -> Option<u64> {
        let reached = |(index, step): (usize, &Step)| match budget {
            PrefixBudget::Steps => (index + 1) as f64 >= limit,
            PrefixBudget::Tokens => step.total_tokens as f64 >= limit,
            // Allow for rounding errors in sums of prices.
            PrefixBudget::Cost => step.total_cost >= limit - 1e-9,
            PrefixBudget::Seconds => step.elapsed_seconds >= limit,
        };
        self.steps
            .iter()
            .enumerate()
            .position(|(index, step)| reached((index, step)))
            .map(|at| at as u64 + 1)
    }

    /// Returns the tree after a step. Returns the graded tree if `step` is `None`, the last step or
    /// beyond it.
    pub fn tree_after(&self, step: Option<u64>) -> &str {
        let step = step.filter(|step| *step < self.step_count());
        step.and_then(|step| self.steps.get((step as usize).checked_sub(1)?))
            .map_or(&self.final_tree, |step| &step.tree)
    }

    /// Returns the graded tree.
    pub fn final_tree(&self) -> &str {
        &self.final_tree
    }

    /// Returns every tree that differs from the previous one, with its step.
    pub fn distinct_trees(&self) -> Vec<(u64, &str)> {
        let mut last = self.base_tree.as_str();
        let mut trees = Vec::new();
        for step in 1..=self.step_count() {
            let tree = self.tree_after(Some(step));
            if tree != last {
                trees.push((step, tree));
            }
            last = tree;
        }
        trees
    }

    /// Returns the patch from the agent's initial tree to `tree`, computed exactly like the
    /// trial's own patch.
    ///
    /// # Errors
    /// Fails if a snapshot cannot be read.
    pub fn compute_patch(&self, tree: &str) -> Result<Vec<u8>, Fault> {
        let lost = |error: RecordError| {
            error.fault().hint(Remedy::RestoreFromCopy.hint()).into_permanent()
        };
        let policy = PatchPolicy::shipped().map_err(|error| error.fault())?;
        let base = Tree::load(&self.blobs, &self.base_tree).map_err(lost)?;
        let end = Tree::load(&self.blobs, tree).map_err(lost)?;
        Ok(collect_patch(&base, &end, &self.blobs, policy).map_err(lost)?.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixes(trees: &[&str]) -> TrialPrefixes {
        let steps = trees.iter().enumerate().map(|(index, tree)| Step {
            total_tokens: 100 * (index as u64 + 1),
            total_cost: 0.1 * (index + 1) as f64,
            elapsed_seconds: 1.5 * (index + 1) as f64,
            tree: (*tree).to_owned(),
        });
        let (steps, end) = (steps.collect(), trees.last().unwrap_or(&"base").to_string());
        TrialPrefixes {
            steps,
            base_tree: "base".into(),
            final_tree: end,
            blobs: Blobs::new("/nowhere"),
        }
    }

    #[test]
    fn prefix_includes_the_response_that_crosses_a_limit() {
        let trial = prefixes(&["base", "one", "one", "two"]);
        let reaches = |budget, at| trial.step_reaching(budget, at);
        assert_eq!(reaches(PrefixBudget::Steps, 2.0), Some(2));
        assert_eq!(reaches(PrefixBudget::Steps, 5.0), None);
        assert_eq!(reaches(PrefixBudget::Tokens, 200.0), Some(2));
        assert_eq!(reaches(PrefixBudget::Tokens, 201.0), Some(3));
        assert_eq!(reaches(PrefixBudget::Cost, 0.3), Some(3), "0.1 three times");
        assert_eq!(reaches(PrefixBudget::Seconds, 1.6), Some(2));
        assert_eq!(reaches(PrefixBudget::Seconds, 100.0), None);
        assert_eq!(trial.tree_after(Some(1)), "base");
        assert_eq!(trial.tree_after(Some(3)), "one");
        assert_eq!((trial.tree_after(Some(4)), trial.tree_after(None)), ("two", "two"));
        assert_eq!(trial.distinct_trees(), [(2, "one"), (4, "two")]);
        assert_eq!(prefixes(&[]).tree_after(None), "base");
    }
}
