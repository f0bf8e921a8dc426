//! Finds the objects to remove: the tops, and everything that only the tops need.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{graph::FileGraph, objects::Objects};

/// Restrictions on the objects to remove.
pub(super) struct RemovalBounds<'a> {
    /// Objects that other tests or imports need.
    pub(super) externally_needed: &'a BTreeSet<usize>,
    /// Maximum number of lines to remove.
    pub(super) max_lines: usize,
    /// Names of objects that are never removed.
    pub(super) protected_names: &'a [String],
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ExtractedObjects {
    /// Objects that the statement shows: the tops, and objects that tests or remaining code call.
    pub(super) shown_objects: BTreeSet<usize>,
    /// Objects that only other removed objects call. The statement does not show them.
    pub(super) helpers: BTreeSet<usize>,
}

impl ExtractedObjects {
    pub(super) fn all_objects(&self) -> BTreeSet<usize> {
        self.shown_objects.union(&self.helpers).copied().collect()
    }

    pub(super) fn restore(&mut self, indices: &BTreeSet<usize>) {
        self.shown_objects.retain(|index| !indices.contains(index));
        self.helpers.retain(|index| !indices.contains(index));
    }

    pub(super) fn retain_only(&mut self, indices: &BTreeSet<usize>) {
        self.shown_objects.retain(|index| indices.contains(index));
        self.helpers.retain(|index| indices.contains(index));
    }

    /// Moves helpers that tests or remaining code call to `shown_objects`, because any solution
    /// must provide them with the same interfaces.
    pub(super) fn show_called_helpers(&mut self, graph: &FileGraph) {
        let removed_objects = self.all_objects();
        let mut called = graph.callees_of_tests();
        for index in graph.reached_objects.iter().filter(|index| !removed_objects.contains(index)) {
            called.extend(graph.callees_of(*index));
        }
        let entries: Vec<usize> = self.helpers.intersection(&called).copied().collect();
        for entry in entries {
            self.helpers.remove(&entry);
            self.shown_objects.insert(entry);
        }
    }
}

/// Finds the objects to remove, by a breadth-first search from the tops. The search continues
/// through objects that must stay. If objects call each other in a cycle, either all of them are
/// removed or none.
pub(super) fn extract_objects(
    tops: &BTreeSet<usize>,
    graph: &FileGraph,
    objects: &Objects,
    bounds: &RemovalBounds<'_>,
) -> ExtractedObjects {
    let component = find_cycles(graph);
    let alone = |index: &usize| vec![*index];
    let members = |index: &usize| component.get(index).cloned().unwrap_or_else(|| alone(index));
    let may_go = |index: &usize| {
        let never = objects
            .list
            .get(*index)
            .is_none_or(|object| bounds.protected_names.iter().any(|name| name == object.name()));
        !never && !bounds.externally_needed.contains(index)
    };
    let size = |indices: &[usize]| -> usize {
        indices
            .iter()
            .filter_map(|index| objects.list.get(*index))
            .map(|object| object.line_count)
            .sum()
    };
    let mut out = ExtractedObjects::default();
    let mut lines_left = bounds.max_lines;
    let mut removed_objects = BTreeSet::new();
    for top in tops.iter().filter(|top| may_go(top)) {
        // Remove the top, even if the cycle that contains it cannot be removed as a whole.
        out.shown_objects.insert(*top);
        removed_objects.insert(*top);
        lines_left = lines_left.saturating_sub(size(&[*top]));
    }
    let mut open: VecDeque<usize> = tops.iter().copied().collect();
    let mut visited: BTreeSet<usize> = tops.clone();
    while let Some(index) = open.pop_front() {
        for called in graph.callees_of(index) {
            if !visited.insert(called) {
                continue;
            }
            if !may_go(&called) {
                open.push_back(called);
                continue;
            }
            let circle: Vec<usize> = members(&called)
                .into_iter()
                .filter(|other| !removed_objects.contains(other))
                .collect();
            let whole = circle.iter().all(may_go);
            let lines = size(&circle);
            if !whole || lines > lines_left {
                // The cycle is too large, or part of it must stay. Keep the whole cycle and
                // everything that it calls.
                continue;
            }
            lines_left -= lines;
            for other in circle {
                removed_objects.insert(other);
                visited.insert(other);
                out.helpers.insert(other);
                open.push_back(other);
            }
        }
    }
    out.helpers.retain(|index| !out.shown_objects.contains(index));
    out.show_called_helpers(graph);
    out
}

/// Returns the cycles with more than one object, by member. Uses Tarjan's algorithm without
/// recursion.
fn find_cycles(graph: &FileGraph) -> BTreeMap<usize, Vec<usize>> {
    let mut order: BTreeMap<usize, usize> = BTreeMap::new();
    let mut low: BTreeMap<usize, usize> = BTreeMap::new();
    let mut stack: Vec<usize> = Vec::new();
    let mut on_stack = BTreeSet::new();
    let mut out = BTreeMap::new();
    for &start in &graph.reached_objects {
        if order.contains_key(&start) {
            continue;
        }
        let mut work: Vec<(usize, Vec<usize>)> = Vec::new();
        let enter = |object: usize,
                     order: &mut BTreeMap<usize, usize>,
                     low: &mut BTreeMap<usize, usize>| {
            let at = order.len();
            order.insert(object, at);
            low.insert(object, at);
            (object, graph.callees_of(object).into_iter().collect::<Vec<_>>())
        };
        work.push(enter(start, &mut order, &mut low));
        stack.push(start);
        on_stack.insert(start);
        while let Some((object, next)) = work.last_mut() {
            let object = *object;
            let Some(called) = next.pop() else {
                work.pop();
                let lowest = low.get(&object).copied().unwrap_or_default();
                if let Some((parent, _)) = work.last() {
                    low.entry(*parent).and_modify(|it| *it = lowest.min(*it));
                }
                if order.get(&object) == Some(&lowest) {
                    let from = stack.iter().rposition(|it| *it == object).unwrap_or_default();
                    let mut members = stack.split_off(from);
                    members.sort_unstable();
                    for member in &members {
                        on_stack.remove(member);
                    }
                    if members.len() > 1 {
                        for member in &members {
                            out.insert(*member, members.clone());
                        }
                    }
                }
                continue;
            };
            if !order.contains_key(&called) {
                work.push(enter(called, &mut order, &mut low));
                stack.push(called);
                on_stack.insert(called);
            } else if on_stack.contains(&called) {
                let at = order.get(&called).copied().unwrap_or_default();
                low.entry(object).and_modify(|it| *it = at.min(*it));
            }
        }
    }
    out
}
