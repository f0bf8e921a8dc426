//! Chooses the code to remove for a level-1 task, and removes it.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    context::CandidateContext,
    graph::FileGraph,
    mask::{carve_importable, count_removed_lines},
    other_files::{self, OtherFiles},
    outcome::StopReason,
    seeded_rng::SeededRng,
    traverse::{ExtractedObjects, RemovalBounds, extract_objects},
};
use crate::Carving;

/// The code to remove for a task, and the tests that must still pass.
#[derive(Clone)]
pub(super) struct Removal {
    pub(super) other_files: OtherFiles,
    pub(super) extracted: ExtractedObjects,
    pub(super) carving: Carving,
    pub(super) mask: String,
    protected_files: Vec<String>,
}

impl CandidateContext<'_> {
    /// Returns the first removal that yields a task of FeatureBench's size. The policies are tried
    /// one after the other. If none yields such a task, returns the largest removal.
    pub(super) fn choose_removal(
        &self,
        file: &str,
        graph: &FileGraph,
        tops: &BTreeSet<usize>,
    ) -> Result<Removal, StopReason> {
        let mut best: Option<Removal> = None;
        let mut refused = Vec::new();
        for &policy in &self.settings.pass_to_pass.policies {
            let name = serde_json::to_string(&policy).unwrap_or_default();
            let mut seeded = SeededRng::from_parts(&[&self.seed, file, &name]);
            let chosen = other_files::choose_other_files(
                policy,
                file,
                tops,
                &self.graphs_with_passing_tests(),
                &self.settings.pass_to_pass,
                &mut seeded,
            );
            let others = match chosen {
                Ok(others) => others,
                Err(why) => {
                    refused.push((name, why));
                    continue;
                }
            };
            let mut remained: BTreeSet<usize> = BTreeSet::new();
            for graph in self.graphs.values() {
                remained.extend(&graph.import_time_objects);
            }
            for graph in others.files.iter().filter_map(|file| self.graphs.get(file)) {
                remained.extend(&graph.reached_objects);
                remained.extend(&graph.collection_time_objects);
            }
            remained.extend(self.objects.functions_used_as_values(&remained));
            let [low, high] = self.settings.take_away.lines;
            let bounds = RemovalBounds {
                externally_needed: &remained,
                max_lines: seeded.number_between(low, high),
                protected_names: &self.settings.take_away.never,
            };
            let extracted = extract_objects(&others.tops, graph, &self.objects, &bounds);
            if extracted.all_objects().is_empty() {
                refused.push((
                    name,
                    "other tests or imports need everything that would be removed".to_owned(),
                ));
                continue;
            }
            let watched: Vec<String> = others
                .files
                .iter()
                .chain(&self.helpers)
                .filter(|name| *name != file)
                .cloned()
                .collect();
            let mut removal = Removal {
                other_files: others,
                extracted,
                carving: Carving { objects: Vec::new(), files: BTreeMap::new() },
                mask: String::new(),
                protected_files: watched,
            };
            if let Err(why) = self.carve(file, &mut removal) {
                refused.push((name, why));
                continue;
            }
            let lines = count_removed_lines(&removal.mask);
            if best.as_ref().is_none_or(|best| count_removed_lines(&best.mask) < lines) {
                best = Some(removal);
            }
            if lines >= self.settings.minima.lines {
                break;
            }
        }
        best.ok_or_else(|| StopReason::Reject("pass_to_pass", join_reasons(&refused)))
    }

    pub(super) fn carve(&self, file: &str, removal: &mut Removal) -> Result<(), String> {
        let carving = carve_importable(
            &self.tree.folder,
            &self.objects,
            &mut removal.extracted,
            &removal.protected_files,
            self.settings.take_away.rounds,
        )?;
        if let Some(graph) = self.graphs.get(file) {
            removal.extracted.show_called_helpers(graph);
        }
        removal.mask = carving.mask();
        removal.carving = carving;
        Ok(())
    }

    /// Returns the graphs of files with at least one test that passes in every run.
    fn graphs_with_passing_tests(&self) -> BTreeMap<String, FileGraph> {
        let steady = self.graphs.iter().filter(|(file, _)| self.suite.steady.contains_key(*file));
        steady.map(|(file, graph)| (file.clone(), graph.clone())).collect()
    }
}

/// Joins the reasons given for all policies. If all reasons are the same, returns only one.
fn join_reasons(rejections: &[(String, String)]) -> String {
    if let [(_, first), rest @ ..] = rejections
        && rest.iter().all(|(_, why)| why == first)
    {
        return first.clone();
    }
    let each: Vec<String> = rejections.iter().map(|(name, why)| format!("{name}: {why}")).collect();
    each.join("; ")
}
