//! Creates notes on functions for the statement: the types observed in tests, the exceptions that a
//! function raises, and whether the function is a generator. Notes contain no values and no code.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    calls::{Calls, ObservedTypes},
    graph::FileGraph,
    objects::Objects,
};

/// Maximum number of types listed per parameter.
const MAX_LISTED_TYPES: usize = 6;

/// The notes on a project's functions.
#[derive(Debug, Clone, Default)]
pub(super) struct FunctionNotes {
    /// Observed types by object index.
    observed_types: BTreeMap<usize, ObservedTypes>,
}

impl FunctionNotes {
    pub(super) fn from_calls(calls: &Calls, objects: &Objects) -> Self {
        let mut types_by_object: BTreeMap<usize, ObservedTypes> = BTreeMap::new();
        for (code, types) in &calls.types {
            let code = calls.code.get(*code);
            let Some(index) = code.and_then(|code| objects.find_by_code(code)) else { continue };
            let all = types_by_object.entry(index).or_default();
            for (parameter, kinds) in types {
                all.entry(parameter.clone()).or_default().extend(kinds.iter().cloned());
            }
        }
        Self { observed_types: types_by_object }
    }

    /// Returns the notes on a function, one per line. `is_helper` tells whether the statement hides
    /// a given function. The exceptions of a hidden function are attributed to its callers.
    pub(super) fn notes_for_object(
        &self,
        index: usize,
        objects: &Objects,
        graph: &FileGraph,
        is_helper: &dyn Fn(usize) -> bool,
    ) -> Vec<String> {
        let mut out = Vec::new();
        let Some(object) = objects.list.get(index) else { return out };
        let yields = object.traits().any(|it| it.yields);
        if let (Some(traits), Some(seen)) =
            (object.traits().next(), self.observed_types.get(&index))
        {
            // Constructors and generators have obvious return types, so leave the types out.
            let returns = !yields && object.name() != "__init__";
            let said = format_types(&traits.untyped, seen, returns);
            out.extend((!said.is_empty()).then(|| format!("Seen in tests: {said}.")));
        }
        if yields {
            out.push("A generator.".to_owned());
        }
        let raised = raised_exceptions(index, objects, graph, is_helper);
        if !raised.is_empty() {
            out.push(format!("Raises {}.", raised.into_iter().collect::<Vec<_>>().join(", ")));
        }
        out
    }
}

/// Formats the types observed for parameters and return values that have no annotation: `a: int or
/// None; returns str`.
fn format_types(
    untyped: &[String],
    observed_types: &ObservedTypes,
    includes_return: bool,
) -> String {
    let kinds = |name: &String| {
        let (none, mut kinds): (Vec<&str>, Vec<&str>) =
            observed_types.get(name)?.iter().map(String::as_str).partition(|kind| *kind == "None");
        let more = if kinds.len() > MAX_LISTED_TYPES { " or others" } else { "" };
        kinds.truncate(MAX_LISTED_TYPES);
        kinds.extend(none);
        (!kinds.is_empty()).then(|| kinds.join(" or ") + more)
    };
    let part = |name: &String| match name.as_str() {
        "" if !includes_return => None,
        "" => Some(format!("returns {}", kinds(name)?)),
        name_of => Some(format!("{name_of}: {}", kinds(name)?)),
    };
    untyped.iter().filter_map(part).collect::<Vec<_>>().join("; ")
}

fn raised_exceptions(
    index: usize,
    objects: &Objects,
    graph: &FileGraph,
    is_helper: &dyn Fn(usize) -> bool,
) -> BTreeSet<String> {
    let (mut open, mut known) = (vec![index], BTreeSet::from([index]));
    let mut out = BTreeSet::new();
    while let Some(index) = open.pop() {
        let Some(object) = objects.list.get(index) else { continue };
        out.extend(object.traits().flat_map(|it| it.raises.iter().cloned()));
        let called = graph.callees_of(index);
        open.extend(called.into_iter().filter(|&it| is_helper(it) && known.insert(it)));
    }
    out
}
