//! The calls of one test file between removable objects.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    calls::{Calls, Edge, FileCalls},
    objects::{Node, Objects},
};

/// What one test file reaches.
#[derive(Debug, Clone, Default)]
pub(super) struct FileGraph {
    /// The tests' first calls.
    pub(super) roots: BTreeSet<Node>,
    pub(super) next: BTreeMap<Node, BTreeSet<Node>>,
    /// All objects that run in its tests.
    pub(super) reached: BTreeSet<usize>,
    /// Objects that run when the package is imported.
    pub(super) imported: BTreeSet<usize>,
    /// Objects that run when this file is collected, from statements outside of the package.
    pub(super) collected: BTreeSet<usize>,
}

impl FileGraph {
    pub(super) fn all(calls: &Calls, objects: &Objects) -> BTreeMap<String, Self> {
        let nodes: Vec<Node> = calls.code.iter().map(|code| objects.node(code)).collect();
        let of = |file: &FileCalls| Self::of(file, &nodes);
        calls.files.iter().map(|(name, file)| (name.clone(), of(file))).collect()
    }

    fn of(calls: &FileCalls, nodes: &[Node]) -> Self {
        let mut out = Self::default();
        let ends = |(caller, called): &Edge| {
            Some((caller.and_then(|caller| nodes.get(caller)), nodes.get(*called)?))
        };
        for (caller, called) in calls.tests.values().flatten().filter_map(ends) {
            match caller {
                None => drop(out.roots.insert(called.clone())),
                Some(caller) if caller == called => {}
                Some(caller) => {
                    out.next.entry(caller.clone()).or_default().insert(called.clone());
                }
            }
            for node in caller.into_iter().chain([called]) {
                match node {
                    Node::Object(number) => drop(out.reached.insert(*number)),
                    // The runner starts tests, even if something else calls them, too.
                    Node::Outside(_) => drop(out.roots.insert(node.clone())),
                    Node::Module(_) | Node::Loose(..) => {}
                }
            }
            // A module that a test imported first.
            if let (Some(Node::Module(_)), Node::Object(number)) = (caller, called) {
                out.imported.insert(*number);
            }
        }
        let mut imports: BTreeMap<&Node, BTreeSet<&Node>> = BTreeMap::new();
        for (caller, called) in calls.imports.iter().filter_map(ends) {
            if let Some(caller) = caller {
                imports.entry(caller).or_default().insert(called);
            }
        }
        out.imported.extend(run_by(&imports, |node| matches!(node, Node::Module(_))));
        out.collected = run_by(&imports, |node| matches!(node, Node::Outside(_)));
        out
    }

    /// The objects that an object calls, with only lambdas and imports of the package in between.
    pub(super) fn called_by(&self, number: usize) -> BTreeSet<usize> {
        self.objects_after(self.next.get(&Node::Object(number)).into_iter().flatten())
    }

    /// The objects that the tests call directly.
    pub(super) fn called_by_tests(&self) -> BTreeSet<usize> {
        self.objects_after(self.roots.iter())
    }

    fn objects_after<'a>(&'a self, start: impl Iterator<Item = &'a Node>) -> BTreeSet<usize> {
        let mut open: Vec<&Node> = start.collect();
        let (mut seen, mut out) = (BTreeSet::new(), BTreeSet::new());
        while let Some(node) = open.pop() {
            if !seen.insert(node) {
                continue;
            }
            match node {
                Node::Object(number) => drop(out.insert(*number)),
                _ => open.extend(self.next.get(node).into_iter().flatten()),
            }
        }
        out
    }
}

/// The objects that some nodes run, directly or indirectly.
fn run_by(
    next: &BTreeMap<&Node, BTreeSet<&Node>>,
    starts: impl Fn(&Node) -> bool,
) -> BTreeSet<usize> {
    let mut open: Vec<&Node> = next.keys().copied().filter(|node| starts(node)).collect();
    let (mut seen, mut out) = (BTreeSet::new(), BTreeSet::new());
    while let Some(node) = open.pop() {
        if !seen.insert(node) {
            continue;
        }
        if let Node::Object(number) = node {
            out.insert(*number);
        }
        // Follow calls of a test's module into the package, but not into its imports.
        let inner = next.get(node).into_iter().flatten();
        open.extend(
            inner.copied().filter(|inner| !matches!(inner, Node::Module(_) | Node::Outside(_))),
        );
    }
    out
}
