//! What was found, by its source.

use std::collections::{BTreeMap, BTreeSet};

use proctor_types::Fault;
use proctor_wire::WINDOW_LINES;

use super::known::Known;
use crate::finding::{Finding, Kind};

/// Where a run of the solution was first seen. A run that came over the network is not attributed
/// to the environment, even if a tool shows it later.
#[derive(Default)]
pub(super) struct Tally {
    first: BTreeMap<u32, Kind>,
    sources: BTreeMap<Kind, Source>,
}

#[derive(Default)]
struct Source {
    runs: BTreeSet<u32>,
    /// How the first of them came.
    how: String,
    steps: BTreeSet<Option<u64>>,
}

impl Tally {
    /// Content reached the agent from a source.
    pub(super) fn came(
        &mut self,
        (kind, how): (Kind, &dyn Fn() -> String),
        (content, step): (&[u8], Option<u64>),
        known: &mut Known<'_>,
    ) -> Result<(), Fault> {
        let mut held = known.solution.held(content);
        held.retain(|run| self.first.get(run).is_none_or(|first| *first == kind));
        // What tools show may be the agent's own work.
        let news = match kind {
            Kind::AnswerInEnvironment => known.not_made(held)?,
            _ => known.news(held)?,
        };
        self.add(kind, how, news, step);
        Ok(())
    }

    /// Whether a run came from elsewhere.
    pub(super) fn has(&self, run: u32) -> bool {
        self.first.contains_key(&run)
    }

    pub(super) fn add(
        &mut self,
        kind: Kind,
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

    /// The sources that brought enough of the solution.
    pub(super) fn findings(self, known: &Known<'_>) -> Vec<Finding> {
        let settings = known.solution.settings;
        let all = known.all();
        let mut found = Vec::new();
        for (kind, Source { runs, how, steps }) in self.sources {
            if runs.len() < settings.need(all).max(1) {
                continue;
            }
            let line: String = known.shown(&runs).chars().take(settings.limits.shown).collect();
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
