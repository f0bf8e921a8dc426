//! Notes on functions in a statement besides their signatures and documentation: the types observed
//! in tests, the exceptions they raise, and whether they are generators. They contain no values and
//! no code.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    calls::{Calls, Types},
    graph::FileGraph,
    objects::Objects,
};

/// Maximum number of types shown per parameter.
const TYPES: usize = 6;

/// The notes on a project's functions.
#[derive(Debug, Clone, Default)]
pub(super) struct Notes {
    /// By object number.
    seen: BTreeMap<usize, Types>,
}

impl Notes {
    pub(super) fn of(calls: &Calls, objects: &Objects) -> Self {
        let mut seen: BTreeMap<usize, Types> = BTreeMap::new();
        for (code, types) in &calls.types {
            let code = calls.code.get(*code);
            let Some(number) = code.and_then(|code| objects.function(code)) else { continue };
            let all = seen.entry(number).or_default();
            for (parameter, kinds) in types {
                all.entry(parameter.clone()).or_default().extend(kinds.iter().cloned());
            }
        }
        Self { seen }
    }

    /// One line each. `helpers` are functions that are not shown: their callers raise what they
    /// raise.
    pub(super) fn lines(
        &self,
        number: usize,
        objects: &Objects,
        graph: &FileGraph,
        helpers: &dyn Fn(usize) -> bool,
    ) -> Vec<String> {
        let mut out = Vec::new();
        let Some(object) = objects.list.get(number) else { return out };
        let yields = object.traits().any(|it| it.yields);
        if let (Some(traits), Some(seen)) = (object.traits().next(), self.seen.get(&number)) {
            // The return value of a constructor or a generator is obvious.
            let returns = !yields && object.name() != "__init__";
            let said = said(&traits.untyped, seen, returns);
            out.extend((!said.is_empty()).then(|| format!("Seen in tests: {said}.")));
        }
        if yields {
            out.push("A generator.".to_owned());
        }
        let raised = raised(number, objects, graph, helpers);
        if !raised.is_empty() {
            out.push(format!("Raises {}.", raised.into_iter().collect::<Vec<_>>().join(", ")));
        }
        out
    }
}

/// `a: int or None; returns str`, for what has no annotation.
fn said(untyped: &[String], seen: &Types, returns: bool) -> String {
    let kinds = |name: &String| {
        let (none, mut kinds): (Vec<&str>, Vec<&str>) =
            seen.get(name)?.iter().map(String::as_str).partition(|kind| *kind == "None");
        let more = if kinds.len() > TYPES { " or others" } else { "" };
        kinds.truncate(TYPES);
        kinds.extend(none);
        (!kinds.is_empty()).then(|| kinds.join(" or ") + more)
    };
    let part = |name: &String| match name.as_str() {
        "" if !returns => None,
        "" => Some(format!("returns {}", kinds(name)?)),
        name_of => Some(format!("{name_of}: {}", kinds(name)?)),
    };
    untyped.iter().filter_map(part).collect::<Vec<_>>().join("; ")
}

fn raised(
    number: usize,
    objects: &Objects,
    graph: &FileGraph,
    helpers: &dyn Fn(usize) -> bool,
) -> BTreeSet<String> {
    let (mut open, mut known) = (vec![number], BTreeSet::from([number]));
    let mut out = BTreeSet::new();
    while let Some(number) = open.pop() {
        let Some(object) = objects.list.get(number) else { continue };
        out.extend(object.traits().flat_map(|it| it.raises.iter().cloned()));
        let called = graph.called_by(number);
        open.extend(called.into_iter().filter(|&it| helpers(it) && known.insert(it)));
    }
    out
}
