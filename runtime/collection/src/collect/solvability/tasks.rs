//! Creates the solvability reports for tasks at both levels.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use proctor_types::Task;

use super::{
    Coverage, Solvability,
    coverage::{TaskTexts, TestFunction, find_requirements},
    file_requirements::{FileRequirements, test_path},
    vocabulary::{CodeVocabulary, VisibleText},
};
use crate::collect::{
    context::CandidateContext,
    level_two::{Files, TopLevelName, module_name},
    objects::Node,
    outcome::StopReason,
    removal::Removal,
};

/// Maximum number of requirements named in a rejection reason.
const MAX_LISTED_REQUIREMENTS: usize = 3;

impl Solvability {
    /// Removes the tests listed in `left_out` from the task.
    ///
    /// # Errors
    /// A rejection if no fail-to-pass test is left.
    pub(in crate::collect) fn remove_left_out_tests(
        &self,
        task: &mut Task,
    ) -> Result<(), StopReason> {
        let left_out_ids: BTreeSet<&String> = self.left_out.iter().collect();
        task.fail_to_pass.retain(|id| !left_out_ids.contains(id));
        if !task.fail_to_pass.is_empty() {
            return Ok(());
        }
        let uncovered = self.requirements.iter().filter(|it| it.coverage == Coverage::Uncovered);
        let named: Vec<&str> =
            uncovered.map(|it| it.what.as_str()).take(MAX_LISTED_REQUIREMENTS).collect();
        let reason = format!(
            "each of its tests requires something that neither the code nor the statement mentions: {}",
            named.join(", ")
        );
        Err(StopReason::Reject("solvability", reason))
    }
}

impl CandidateContext<'_> {
    /// Creates a level-1 task's report from its fail-to-pass tests.
    pub(in crate::collect) fn level_one_solvability(
        &self,
        file: &str,
        task: &Task,
        removal: &Removal,
        statement: &str,
    ) -> Solvability {
        let mut hidden = CodeVocabulary::default();
        for (before, after) in removal.carving.files.values() {
            hidden.extend(
                CodeVocabulary::from_code(before).difference(&CodeVocabulary::from_code(after)),
            );
        }
        let text = fs::read_to_string(self.tree.folder.join(file)).unwrap_or_default();
        let removed_objects = removal.extracted.all_objects();
        let calls = |id: &String| -> BTreeMap<String, bool> {
            let called = self.callees_of_test(file, id);
            let called = called.into_iter().filter(|index| removed_objects.contains(index));
            called
                .filter_map(|index| {
                    let object = self.objects.list.get(index)?;
                    Some((object.path.clone(), removal.extracted.shown_objects.contains(&index)))
                })
                .collect()
        };
        let report_inputs = ReportInputs {
            text: &text,
            tree: &VisibleText::new(self.remaining_text(task, removal)),
            hidden: &hidden,
            affected: &self.affected_functions(file, &removed_objects),
            statement,
        };
        self.build_solvability(file, task, &report_inputs, &calls)
    }

    /// Creates a level-2 task's report. `text` is the rewritten test file.
    pub(in crate::collect) fn level_two_solvability(
        &self,
        file: &str,
        task: &Task,
        (text, statement): (&str, &str),
        (copy, requested): (&Files, &BTreeSet<TopLevelName>),
    ) -> Solvability {
        let mut hidden = CodeVocabulary::default();
        for text in copy.values() {
            hidden.extend(CodeVocabulary::from_code(text));
        }
        let said = VisibleText::new(statement.to_owned());
        let test = VisibleText::new(text.to_owned());
        let calls = |id: &String| -> BTreeMap<String, bool> {
            let called = self.callees_of_test(file, id);
            let of_asked = called.into_iter().filter_map(|index| {
                let object = self.objects.list.get(index)?;
                let module = module_name(&object.file, &self.project.root);
                let name = object.path.split('.').next().unwrap_or(&object.path);
                let is_requested =
                    requested.iter().any(|it| it.module == module && it.name == name);
                // Ignore functions that the test does not name. The interpreter calls operators,
                // constructors and generators implicitly.
                let is_named = test.has_word(object.name());
                (is_requested && is_named)
                    .then(|| (object.path.clone(), said.has_word(object.name())))
            });
            of_asked.collect()
        };
        let report_inputs = ReportInputs {
            text,
            tree: &VisibleText::default(),
            hidden: &hidden,
            affected: &self.library_functions(),
            statement,
        };
        self.build_solvability(file, task, &report_inputs, &calls)
    }

    /// Returns the module and name of each library object that a rewritten test file still imports.
    pub(in crate::collect) fn library_names(
        &self,
        file: &str,
        text: &str,
    ) -> BTreeSet<(String, String)> {
        let test_module = module_name(file, &self.project.root);
        let mut names =
            FileRequirements::read(text, &test_module, &self.top_level_packages()).library_names();
        names.retain(|name| self.is_in_library(name));
        names
    }

    fn build_solvability(
        &self,
        file: &str,
        task: &Task,
        inputs: &ReportInputs<'_>,
        calls: &dyn Fn(&String) -> BTreeMap<String, bool>,
    ) -> Solvability {
        let test_module = module_name(file, &self.project.root);
        let read = FileRequirements::read(inputs.text, &test_module, &self.top_level_packages());
        let mut tests: BTreeMap<&str, TestFunction> = BTreeMap::new();
        for id in &task.fail_to_pass {
            let test = tests.entry(test_path(id)).or_insert_with(|| {
                let mut needs = read.requirements_for_test(id);
                needs.names.retain(|name| self.is_in_library(name));
                TestFunction {
                    name: test_path(id).to_owned(),
                    requirements: needs,
                    called_functions: BTreeMap::new(),
                }
            });
            test.called_functions.extend(calls(id));
        }
        let tests: Vec<TestFunction> = tests.into_values().collect();
        let shown = TaskTexts {
            tree: inputs.tree,
            statement: &VisibleText::new(inputs.statement.to_owned()),
            hidden: inputs.hidden,
            library_functions: &self.library_functions(),
            affected_functions: inputs.affected,
            limits: &self.settings.solvability,
        };
        let requirements = find_requirements(&tests, &shown);
        let uncovered = requirements.iter().filter(|it| it.coverage == Coverage::Uncovered);
        let left: BTreeSet<&str> =
            uncovered.flat_map(|it| it.tests.iter().map(String::as_str)).collect();
        let is_left = |id: &&String| left.contains(test_path(id));
        let left_out = task.fail_to_pass.iter().filter(is_left).cloned().collect();
        Solvability { task: task.id.to_string(), requirements, left_out }
    }

    /// Returns the objects that the test's own code called in the traced run. Calls made by the
    /// library's code don't count.
    fn callees_of_test(&self, file: &str, id: &str) -> BTreeSet<usize> {
        let calls = &self.suite.calls;
        let edges = calls.files.get(file).and_then(|of_file| of_file.tests.get(id));
        let node =
            |index: usize| calls.code.get(index).map(|code| self.objects.node_for_code(code));
        let mut out = BTreeSet::new();
        for (caller, called) in edges.into_iter().flatten() {
            let is_test =
                caller.is_none_or(|caller| matches!(node(caller), Some(Node::External(_))));
            if is_test && let Some(Node::Object(index)) = node(*called) {
                out.insert(index);
            }
        }
        out
    }

    /// Returns the names of all functions and classes in the library.
    fn library_functions(&self) -> BTreeSet<String> {
        self.objects.list.iter().map(|object| object.name().to_owned()).collect()
    }

    /// Returns the names of functions and classes that call removed code in a test file's tests,
    /// directly or indirectly, and of the removed code itself.
    fn affected_functions(&self, file: &str, removed: &BTreeSet<usize>) -> BTreeSet<String> {
        let mut affected = removed.clone();
        if let Some(graph) = self.graphs.get(file) {
            let reached = graph.reached_objects.iter();
            let callees: Vec<(usize, BTreeSet<usize>)> =
                reached.map(|&index| (index, graph.callees_of(index))).collect();
            loop {
                let before = affected.len();
                for (index, called) in &callees {
                    if !called.is_disjoint(&affected) {
                        affected.insert(*index);
                    }
                }
                if affected.len() == before {
                    break;
                }
            }
        }
        let mut names = BTreeSet::new();
        for object in affected.iter().filter_map(|&index| self.objects.list.get(index)) {
            names.insert(object.name().to_owned());
            // Operators and constructors are called through their class.
            let class = object.class().filter(|_| object.name().starts_with("__"));
            names.extend(class.and_then(|it| it.rsplit('.').next()).map(str::to_owned));
        }
        names
    }

    /// Returns the text of all package files and test files that the agent can read in a level-1
    /// task.
    fn remaining_text(&self, task: &Task, removal: &Removal) -> String {
        let mut out = String::new();
        for file in &self.project.modules {
            match removal.carving.files.get(file) {
                Some((_, after)) => out.push_str(after),
                None => out.push_str(&self.read_source(file)),
            }
            out.push('\n');
        }
        let tests = self.suite.calls.files.keys().chain(&self.helpers);
        for file in tests.filter(|file| !task.hidden.contains(file)) {
            out.push_str(&self.read_source(file));
            out.push('\n');
        }
        out
    }

    fn read_source(&self, file: &str) -> String {
        fs::read_to_string(self.tree.folder.join(file)).unwrap_or_default()
    }

    fn top_level_packages(&self) -> BTreeSet<String> {
        let root = |file: &String| {
            let module = module_name(file, &self.project.root);
            module.split('.').next().unwrap_or(&module).to_owned()
        };
        self.project.modules.iter().map(root).collect()
    }

    /// Whether a name is defined in a module of the library and is not a module itself.
    fn is_in_library(&self, (module, name): &(String, String)) -> bool {
        let modules: BTreeSet<String> =
            self.project.modules.iter().map(|file| module_name(file, &self.project.root)).collect();
        modules.contains(module) && !modules.contains(&format!("{module}.{name}"))
    }
}

struct ReportInputs<'a> {
    text: &'a str,
    tree: &'a VisibleText,
    hidden: &'a CodeVocabulary,
    /// Names of functions and classes whose results depend on the hidden code.
    affected: &'a BTreeSet<String>,
    statement: &'a str,
}
