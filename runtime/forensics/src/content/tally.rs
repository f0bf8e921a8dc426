//! Collects the parts of the solution that were found, by source.

use std::collections::{BTreeMap, BTreeSet};

use proctor_types::Fault;
use proctor_wire::WINDOW_LINES;

use super::known::KnownLines;
use crate::finding::{Finding, FindingKind};

/// The source in which each run of lines first appeared. A run that arrived over the network is not
/// attributed to the environment, even if a tool shows it later.
#[derive(Default)]
pub(super) struct Tally {
    first: BTreeMap<u32, FindingKind>,
    sources: BTreeMap<FindingKind, Source>,
}

#[derive(Default)]
struct Source {
    runs: BTreeSet<u32>,
    /// How the source's first run arrived, as text.
    how: String,
    steps: BTreeSet<Option<u64>>,
}

impl Tally {
    /// Records content from a source that reached the agent.
    pub(super) fn record_content(
        &mut self,
        (kind, how): (FindingKind, &dyn Fn() -> String),
        (content, step): (&[u8], Option<u64>),
        known: &mut KnownLines<'_>,
    ) -> Result<(), Fault> {
        let mut held = known.solution.find_runs(content);
        held.retain(|run| self.first.get(run).is_none_or(|first| *first == kind));
        // Tool output may show the agent's own work, so ignore runs that a program written by the
        // model could have produced.
        let news = match kind {
            FindingKind::AnswerInEnvironment => known.underivable_runs(held)?,
            _ => known.unknown_runs(held)?,
        };
        self.add(kind, how, news, step);
        Ok(())
    }

    /// Returns whether a run was already found, in any source.
    pub(super) fn contains_run(&self, run: u32) -> bool {
        self.first.contains_key(&run)
    }

    pub(super) fn add(
        &mut self,
        kind: FindingKind,
        how: &dyn Fn() -> String,
        runs: BTreeSet<u32>,
        step: Option<u64>,
    ) {
        if runs.is_empty() {
            return;
        }
        let source = self.sources.entry(kind).or_default();
        if source.runs.is_empty() {
            source.how = how();
        }
        source.steps.insert(step);
        for run in runs {
            self.first.insert(run, kind);
            source.runs.insert(run);
        }
    }

    /// Returns a finding for each source that supplied a large enough part of the solution.
    pub(super) fn findings(self, known: &KnownLines<'_>) -> Vec<Finding> {
        let settings = known.solution.settings;
        let all = known.count_findable_runs();
        let mut found = Vec::new();
        for (kind, Source { runs, how, steps }) in self.sources {
            if runs.len() < settings.required_runs(all).max(1) {
                continue;
            }
            let line: String =
                known.sample_line(&runs).chars().take(settings.limits.shown).collect();
            let what = format!(
                "{how}: {} of {all} sequences of {WINDOW_LINES} lines that only the solution has, including: {line}",
                runs.len()
            );
            let finding = |step| Finding { kind, what: what.clone(), step };
            found.extend(steps.into_iter().map(finding));
        }
        found
    }
}
