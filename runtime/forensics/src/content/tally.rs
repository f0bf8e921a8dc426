//! Collects, by source, the parts of the solution that reached the agent.

use std::collections::{BTreeMap, BTreeSet};

use proctor_types::Fault;
use proctor_wire::WINDOW_LINES;

use super::known::KnownLines;
use crate::finding::{Finding, FindingKind};

/// The source in which each run of lines first appeared. A run that arrived over the network is not
/// attributed to the environment, even if a tool shows it later.
#[derive(Default)]
pub(super) struct Tally {
    first_source: BTreeMap<u32, FindingKind>,
    sources: BTreeMap<FindingKind, ContentSource>,
}

#[derive(Default)]
struct ContentSource {
    runs: BTreeSet<u32>,
    /// Describes how the source's first run reached the agent.
    describe_source: String,
    steps: BTreeSet<Option<u64>>,
}

impl Tally {
    /// Records the runs of lines in content that reached the agent from one source.
    pub(super) fn record_content(
        &mut self,
        (kind, how): (FindingKind, &dyn Fn() -> String),
        (content, step): (&[u8], Option<u64>),
        known_lines: &mut KnownLines<'_>,
    ) -> Result<(), Fault> {
        let mut runs = known_lines.solution.find_runs(content);
        runs.retain(|run| self.first_source.get(run).is_none_or(|first| *first == kind));
        // Tool output may show the agent's own work, so ignore runs that a program written by the
        // model could have produced.
        let news = match kind {
            FindingKind::AnswerInEnvironment => known_lines.underivable_runs(runs)?,
            _ => known_lines.unknown_runs(runs)?,
        };
        self.add(kind, how, news, step);
        Ok(())
    }

    /// Returns whether a run was already found, in any source.
    pub(super) fn contains_run(&self, run: u32) -> bool {
        self.first_source.contains_key(&run)
    }

    pub(super) fn add(
        &mut self,
        kind: FindingKind,
        describe_source: &dyn Fn() -> String,
        runs: BTreeSet<u32>,
        step: Option<u64>,
    ) {
        if runs.is_empty() {
            return;
        }
        let source = self.sources.entry(kind).or_default();
        if source.runs.is_empty() {
            source.describe_source = describe_source();
        }
        source.steps.insert(step);
        for run in runs {
            self.first_source.insert(run, kind);
            source.runs.insert(run);
        }
    }

    /// Returns a finding for each source that supplied a large enough part of the solution.
    pub(super) fn findings(self, known_lines: &KnownLines<'_>) -> Vec<Finding> {
        let settings = known_lines.solution.settings;
        let all = known_lines.count_findable_runs();
        let mut found = Vec::new();
        for (kind, ContentSource { runs, describe_source: how, steps }) in self.sources {
            if runs.len() < settings.required_runs(all).max(1) {
                continue;
            }
            let line: String =
                known_lines.sample_line(&runs).chars().take(settings.limits.shown).collect();
            let message = format!(
                "{how}: {} of {all} sequences of {WINDOW_LINES} lines that occur only in the solution, including: {line}",
                runs.len()
            );
            let finding = |step| Finding { kind, description: message.clone(), step };
            found.extend(steps.into_iter().map(finding));
        }
        found
    }
}
