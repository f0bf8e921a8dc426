//! The call graph of one test file.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    calls::{Calls, Edge, FileCalls},
    objects::{Node, Objects},
};

/// The calls and objects that one test file reaches.
#[derive(Debug, Clone, Default)]
pub(super) struct FileGraph {
    /// The nodes that the test runner or the tests call directly.
    pub(super) roots: BTreeSet<Node>,
    /// The callees of each node.
    pub(super) callees: BTreeMap<Node, BTreeSet<Node>>,
    /// All objects that run during the file's tests.
    pub(super) reached_objects: BTreeSet<usize>,
    /// Objects that run when the package is imported.
    pub(super) import_time_objects: BTreeSet<usize>,
    /// Objects that code outside the package calls while pytest collects this file.
    pub(super) collection_time_objects: BTreeSet<usize>,
}

impl FileGraph {
    pub(super) fn build_all(calls: &Calls, objects: &Objects) -> BTreeMap<String, Self> {
        let nodes: Vec<Node> = calls.code.iter().map(|code| objects.node_for_code(code)).collect();
        let of = |file: &FileCalls| Self::from_calls(file, &nodes);
        calls.files.iter().map(|(name, file)| (name.clone(), of(file))).collect()
    }

    fn from_calls(calls: &FileCalls, nodes: &[Node]) -> Self {
        let mut out = Self::default();
        let ends = |(caller, called): &Edge| {
            Some((caller.and_then(|caller| nodes.get(caller)), nodes.get(*called)?))
        };
        for (caller, called) in calls.tests.values().flatten().filter_map(ends) {
            match caller {
                None => drop(out.roots.insert(called.clone())),
                Some(caller) if caller == called => {}
                Some(caller) => {
                    out.callees.entry(caller.clone()).or_default().insert(called.clone());
                }
            }
            for node in caller.into_iter().chain([called]) {
                match node {
                    Node::Object(index) => drop(out.reached_objects.insert(*index)),
                    // Code outside the package is always a root, even if other code called it.
                    Node::External(_) => drop(out.roots.insert(node.clone())),
                    Node::Module(_) | Node::ModuleExpression(..) => {}
                }
            }
            // Module-level code made this call, so this test was the first to import the module.
            if let (Some(Node::Module(_)), Node::Object(index)) = (caller, called) {
                out.import_time_objects.insert(*index);
            }
        }
        let mut imports: BTreeMap<&Node, BTreeSet<&Node>> = BTreeMap::new();
        for (caller, called) in calls.imports.iter().filter_map(ends) {
            if let Some(caller) = caller {
                imports.entry(caller).or_default().insert(called);
            }
        }
        out.import_time_objects
            .extend(transitive_callees(&imports, |node| matches!(node, Node::Module(_))));
        out.collection_time_objects =
            transitive_callees(&imports, |node| matches!(node, Node::External(_)));
        out
    }

    /// Returns the objects that an object calls, either directly or through nodes that are not
    /// objects, such as lambdas and imports.
    pub(super) fn callees_of(&self, index: usize) -> BTreeSet<usize> {
        self.reachable_objects(self.callees.get(&Node::Object(index)).into_iter().flatten())
    }

    /// Returns the objects that the tests call directly.
    pub(super) fn callees_of_tests(&self) -> BTreeSet<usize> {
        self.reachable_objects(self.roots.iter())
    }

    fn reachable_objects<'a>(&'a self, start: impl Iterator<Item = &'a Node>) -> BTreeSet<usize> {
        let mut open: Vec<&Node> = start.collect();
        let (mut seen, mut out) = (BTreeSet::new(), BTreeSet::new());
        while let Some(node) = open.pop() {
            if !seen.insert(node) {
                continue;
            }
            match node {
                Node::Object(index) => drop(out.insert(*index)),
                _ => open.extend(self.callees.get(node).into_iter().flatten()),
            }
        }
        out
    }
}

/// Returns the objects that the start nodes call, directly or indirectly.
fn transitive_callees(
    callees: &BTreeMap<&Node, BTreeSet<&Node>>,
    is_start: impl Fn(&Node) -> bool,
) -> BTreeSet<usize> {
    let mut open: Vec<&Node> = callees.keys().copied().filter(|node| is_start(node)).collect();
    let (mut seen, mut out) = (BTreeSet::new(), BTreeSet::new());
    while let Some(node) = open.pop() {
        if !seen.insert(node) {
            continue;
        }
        if let Node::Object(index) = node {
            out.insert(*index);
        }
        // Don't follow imports of other modules.
        let inner = callees.get(node).into_iter().flatten();
        open.extend(
            inner.copied().filter(|inner| !matches!(inner, Node::Module(_) | Node::External(_))),
        );
    }
    out
}
