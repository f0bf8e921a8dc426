//! Computes statistics of a dataset's tasks, as in FeatureBench's and FEA-Bench's tables.

use std::collections::{BTreeMap, BTreeSet};

use proctor_patch::{
    Change, CurrentFile, FilePatch, Hunk, MODE_FILE, Patch, RawPath, Side, gold_patch, is_binary,
};
use proctor_types::Task;
use serde::Serialize;

use crate::shapes::fea_bench::{AddedComponent, definitions, new_spans};

/// Returns a source file's content before any patch; `None` if there is no such file.
pub type SourceReader<'a> = &'a dyn Fn(&str) -> Option<Vec<u8>>;

/// The statistics of one task.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TaskStats {
    pub task: String,
    pub repo: Option<String>,
    /// The date, such as `2024-05-01`.
    pub date: Option<String>,
    /// Number of words in the statement, separated by whitespace.
    pub statement_words: usize,
    /// `None` for a task without a reference solution, and for a task that starts from an empty
    /// directory.
    pub gold: Option<GoldStats>,
    pub fail_to_pass: usize,
    /// Number of fail-to-pass and pass-to-pass tests.
    pub tests: usize,
    /// Whether the test ids are whole files, as in FeatureBench's rows.
    pub tests_are_files: bool,
}

/// The statistics of a reference solution.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct GoldStats {
    /// Number of added and removed lines.
    pub lines: usize,
    pub files: usize,
    /// Number of functions with an added or removed line. Each line counts for the innermost
    /// function that contains it.
    pub functions: usize,
    /// Number of classes with an added or removed line.
    pub classes: usize,
    /// Number of new functions, counted like FEA-Bench.
    pub functions_added: usize,
    pub classes_added: usize,
    /// Total lines of the files that the solution changes, before the change. `None` if they cannot
    /// be read.
    pub oracle_lines: Option<usize>,
    /// Number of lines in new functions and classes, each counted once. `None` if the files cannot
    /// be read.
    pub added_lines: Option<usize>,
    /// Whether functions and classes were counted using only the diff.
    pub estimated: bool,
}

impl TaskStats {
    /// Computes the statistics of a task. Without `source`, only the diff is used, and the line
    /// counts of files are unknown.
    pub fn from_task(task: &Task, source: Option<SourceReader<'_>>) -> Self {
        let files =
            |details: &proctor_types::Details| details.matching.non_empty_text() == Some("files");
        Self {
            task: task.id.to_string(),
            repo: task.repo.clone(),
            date: task.date().map(str::to_owned),
            statement_words: task.statement.split_whitespace().count(),
            gold: gold_stats(task, source),
            fail_to_pass: task.fail_to_pass.len(),
            tests: task.fail_to_pass.len() + task.pass_to_pass.len(),
            tests_are_files: task.details().is_some_and(files),
        }
    }
}

/// Files by path. `None` for a file that does not exist.
type FilesByPath = BTreeMap<RawPath, Option<Vec<u8>>>;

fn gold_stats(task: &Task, source: Option<SourceReader<'_>>) -> Option<GoldStats> {
    if task.from_scratch.is_some() {
        return None;
    }
    let gold = gold_patch(task).ok()??;
    let patch = Patch::parse(&gold);
    let read = |path: &RawPath| source.and_then(|read| read(&path.to_string()));
    // The solution starts from the masked source.
    let masked = match &task.mask {
        Some(mask) => source.and_then(|_| files_after_patch(&Patch::parse(mask.as_bytes()), &read)),
        None => source.map(|_| FilesByPath::new()),
    };
    let before = |path: &RawPath| match masked.as_ref().and_then(|masked| masked.get(path)) {
        Some(state) => state.clone(),
        None => read(path),
    };
    let after = masked.as_ref().and_then(|_| files_after_patch(&patch, &before));
    let (added, removed) = patch.count_changed_lines();
    let mut out = GoldStats {
        lines: added + removed,
        files: patch.paths().len(),
        oracle_lines: Some(0),
        added_lines: Some(0),
        ..GoldStats::default()
    };
    for file in &patch.files {
        let states = match (&file.old_path, &after) {
            (None, _) => Some((None, new_text(file))),
            (Some(old), Some(after)) => {
                let old = before(old).unwrap_or_default();
                let new = file.new_path.as_ref().map(|new| match after.get(new) {
                    Some(state) => state.clone().unwrap_or_default(),
                    None => old.clone(),
                });
                Some((Some(old), new.unwrap_or_default()))
            }
            (Some(_), None) => None,
        };
        let lines = states.as_ref().map(|(old, _)| old.as_ref().map_or(0, |old| count_lines(old)));
        out.oracle_lines = out.oracle_lines.zip(lines).map(|(sum, more)| sum + more);
        if file.path().as_bytes().ends_with(b".py") {
            let measured = states.and_then(|(old, new)| {
                let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
                DefinitionChanges::from_texts(file, old.map(text).as_deref(), &text(new))
            });
            out.add_file(measured.unwrap_or_else(|| DefinitionChanges::from_diff(file)));
        }
    }
    // If the dataset row states its components, use their number. The row's prompts are based on
    // these components.
    if out.estimated
        && let Some(details) = task.details()
    {
        let count = |known: Option<&u64>, counted| {
            known.and_then(|known| usize::try_from(*known).ok()).unwrap_or(counted)
        };
        out.functions_added = count(details.functions_added.get(), out.functions_added);
        out.classes_added = count(details.classes_added.get(), out.classes_added);
    }
    Some(out)
}

impl GoldStats {
    fn add_file(&mut self, file: DefinitionChanges) {
        self.functions += file.functions.len();
        self.classes += file.classes.len();
        self.functions_added += file.functions_added;
        self.classes_added += file.classes_added;
        self.added_lines = self.added_lines.zip(file.added_lines).map(|(sum, more)| sum + more);
        self.estimated |= file.added_lines.is_none();
    }
}

/// Returns the files that a patch changes, after the change. `None` if the patch does not apply.
fn files_after_patch(
    patch: &Patch,
    read_source: &dyn Fn(&RawPath) -> Option<Vec<u8>>,
) -> Option<FilesByPath> {
    let current = |path: &RawPath| {
        read_source(path).map(|bytes| CurrentFile::File { bytes, mode: MODE_FILE })
    };
    let changes = patch.resolve_lenient(&current).ok()?.changes;
    let files = changes.into_iter().map(|change| match change {
        Change::Write { path, bytes, .. } => (path, Some(bytes)),
        Change::Symlink { path, target } => (path, Some(target.0)),
        Change::Remove { path } => (path, None),
    });
    Some(files.collect())
}

/// Returns the text of a new file, whose diff has only added lines.
fn new_text(file: &FilePatch) -> Vec<u8> {
    let lines = file.hunks().iter().flat_map(|hunk| &hunk.lines);
    lines.filter(|line| line.side != Side::Old).flat_map(|line| line.bytes.clone()).collect()
}

fn count_lines(bytes: &[u8]) -> usize {
    match is_binary(bytes) {
        true => 0,
        false => String::from_utf8_lossy(bytes).lines().count(),
    }
}

/// How a patch changes the definitions in one Python file.
#[derive(Debug, Default)]
struct DefinitionChanges {
    functions: BTreeSet<String>,
    classes: BTreeSet<String>,
    functions_added: usize,
    classes_added: usize,
    /// `None` if only the diff was available.
    added_lines: Option<usize>,
}

impl DefinitionChanges {
    /// Returns `None` if the parser does not support the Python code of either version.
    fn from_texts(file: &FilePatch, old_text: Option<&str>, new_text: &str) -> Option<Self> {
        let spans = new_spans(old_text, new_text)?;
        let before = definitions("", old_text.unwrap_or_default())?;
        let after = definitions("", new_text)?;
        let mut out = Self::default();
        for hunk in file.hunks() {
            let (mut old_line, mut new_line) = (hunk.old_start, hunk.new_start);
            for line in &hunk.lines {
                match line.side {
                    Side::Both => {}
                    Side::Old => out.count_enclosing(&before, old_line),
                    Side::New => out.count_enclosing(&after, new_line),
                }
                old_line += usize::from(line.side != Side::New);
                new_line += usize::from(line.side != Side::Old);
            }
        }
        let lines: BTreeSet<usize> =
            spans.iter().flat_map(|it| it.first_line..=it.last_line).collect();
        out.added_lines = Some(lines.len());
        out.classes_added = spans.iter().filter(|span| span.is_class).count();
        out.functions_added = spans.len() - out.classes_added;
        Some(out)
    }

    /// Counts the innermost function and the innermost class that contain a line.
    fn count_enclosing(&mut self, definitions: &[AddedComponent], line: usize) {
        for (kind, names) in [("function", &mut self.functions), ("class", &mut self.classes)] {
            let around = definitions.iter().filter(|it| {
                it.component.kind == kind && (it.first_line..=it.last_line).contains(&line)
            });
            if let Some(innermost) = around.max_by_key(|it| it.first_line) {
                names.insert(innermost.component.name.clone());
            }
        }
    }

    /// Computes the changes from the function and class headers in the diff's lines and after each
    /// `@@`.
    fn from_diff(file: &FilePatch) -> Self {
        let mut out = Self::default();
        let (mut new, mut gone) = (BTreeSet::new(), BTreeSet::new());
        for hunk in file.hunks() {
            out.add_hunk(hunk, &mut new, &mut gone);
        }
        let added = || new.iter().filter(|name| !gone.contains(*name));
        out.classes_added = added().filter(|(is_class, _)| *is_class).count();
        out.functions_added = added().filter(|(is_class, _)| !*is_class).count();
        out
    }

    fn add_hunk(
        &mut self,
        hunk: &Hunk,
        added: &mut BTreeSet<(bool, String)>,
        removed: &mut BTreeSet<(bool, String)>,
    ) {
        let section = String::from_utf8_lossy(&hunk.section).trim().to_owned();
        // The enclosing definitions: indentation, whether it is a class, and name.
        let mut open: Vec<(usize, bool, String)> = parse_header(&section)
            .map(|(is_class, name)| (0, is_class, name))
            .into_iter()
            .collect();
        for line in &hunk.lines {
            let text = line.text();
            let trimmed = text.trim_start();
            if trimmed.is_empty() {
                continue;
            }
            let indent = text.len() - trimmed.len();
            // A line that starts with a closing bracket may be the end of a multi-line header, so
            // it does not end a definition.
            if !trimmed.starts_with([')', ']', '}', '#']) {
                open.retain(|(outer, _, _)| *outer < indent);
            }
            if let Some((is_class, name)) = parse_header(trimmed) {
                match line.side {
                    Side::New => {
                        added.insert((is_class, name.clone()));
                    }
                    Side::Old => {
                        removed.insert((is_class, name.clone()));
                    }
                    Side::Both => {}
                }
                open.push((indent, is_class, name));
            }
            if line.side == Side::Both {
                continue;
            }
            for (wanted, names) in [(false, &mut self.functions), (true, &mut self.classes)] {
                let innermost = open.iter().rev().find(|(_, is_class, _)| *is_class == wanted);
                names.extend(innermost.map(|(_, _, name)| name.clone()));
            }
        }
    }
}

/// Parses a class or function header. Returns whether it is a class, and its name. Returns `None`
/// if the line is not a header.
fn parse_header(line: &str) -> Option<(bool, String)> {
    let line = line.strip_prefix("async ").map_or(line, str::trim_start);
    let (is_class, rest) = match (line.strip_prefix("def "), line.strip_prefix("class ")) {
        (Some(rest), _) => (false, rest),
        (None, Some(rest)) => (true, rest),
        (None, None) => return None,
    };
    let name = rest.trim_start().split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (!name.is_empty()).then(|| (is_class, name.to_owned()))
}

/// The statistics of a dataset. Each mean covers the tasks for which the value is known.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct DatasetStats {
    pub dataset: String,
    pub tasks: usize,
    /// Number of tasks whose reference solution could be measured.
    pub with_gold: usize,
    /// Number of measured tasks whose functions and classes were counted using only the diff.
    pub estimated: usize,
    pub repositories: usize,
    /// The earliest and latest dates of tasks with a date.
    pub first_date: Option<String>,
    pub last_date: Option<String>,
    pub dated: usize,
    pub statement_words: Option<f64>,
    pub gold_lines: Option<f64>,
    pub gold_files: Option<f64>,
    pub gold_functions: Option<f64>,
    pub gold_classes: Option<f64>,
    pub functions_added: Option<f64>,
    pub classes_added: Option<f64>,
    pub oracle_lines: Option<f64>,
    pub added_component_lines: Option<f64>,
    /// Lines of all added components divided by all gold lines, as in FEA-Bench's Table 1.
    pub added_component_share: Option<f64>,
    pub fail_to_pass: Option<f64>,
    pub tests: Option<f64>,
    /// Number of tasks whose test ids are whole files.
    pub tests_are_files: usize,
    pub per_task: Vec<TaskStats>,
}

impl DatasetStats {
    /// Summarizes the tasks of a dataset.
    pub fn from_tasks(dataset: &str, per_task: Vec<TaskStats>) -> Self {
        let summary = Self::summarize(dataset, &per_task);
        Self { per_task, ..summary }
    }

    fn summarize(dataset: &str, per_task: &[TaskStats]) -> Self {
        let golds: Vec<&GoldStats> =
            per_task.iter().filter_map(|task| task.gold.as_ref()).collect();
        let of_tasks = |of: fn(&TaskStats) -> usize| mean(per_task.iter().map(of));
        let of_golds = |of: fn(&GoldStats) -> usize| mean(golds.iter().map(|gold| of(gold)));
        let components = golds.iter().filter_map(|gold| Some((gold.added_lines?, gold.lines)));
        let (added, edited) =
            components.fold((0, 0), |(added, edited), (more, of)| (added + more, edited + of));
        let repositories: BTreeSet<&str> =
            per_task.iter().filter_map(|task| task.repo.as_deref()).collect();
        let dates = || per_task.iter().filter_map(|task| task.date.clone());
        Self {
            dataset: dataset.to_owned(),
            tasks: per_task.len(),
            with_gold: golds.len(),
            estimated: golds.iter().filter(|gold| gold.estimated).count(),
            repositories: repositories.len(),
            first_date: dates().min(),
            last_date: dates().max(),
            dated: dates().count(),
            statement_words: of_tasks(|task| task.statement_words),
            gold_lines: of_golds(|gold| gold.lines),
            gold_files: of_golds(|gold| gold.files),
            gold_functions: of_golds(|gold| gold.functions),
            gold_classes: of_golds(|gold| gold.classes),
            functions_added: of_golds(|gold| gold.functions_added),
            classes_added: of_golds(|gold| gold.classes_added),
            oracle_lines: mean(golds.iter().filter_map(|gold| gold.oracle_lines)),
            added_component_lines: mean(golds.iter().filter_map(|gold| gold.added_lines)),
            added_component_share: (edited > 0)
                .then(|| round_to_four_decimals(added as f64 / edited as f64)),
            fail_to_pass: of_tasks(|task| task.fail_to_pass),
            tests: of_tasks(|task| task.tests),
            tests_are_files: per_task.iter().filter(|task| task.tests_are_files).count(),
            per_task: Vec::new(),
        }
    }
}

fn mean(values: impl Iterator<Item = usize>) -> Option<f64> {
    let (sum, count) = values.fold((0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| round_to_four_decimals(sum as f64 / f64::from(count)))
}

/// Rounds to four decimals. More would be noise when comparing two datasets.
fn round_to_four_decimals(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SOURCE_TEXT: &str = "import os\n\n\nclass Box:\n    def size(self):\n        return 1\n\n    def name(self):\n        return 'x'\n";
    const GOLD: &str = "diff --git a/box.py b/box.py\n--- a/box.py\n+++ b/box.py\n\
        @@ -4,6 +4,12 @@ import os\n class Box:\n     def size(self):\n-        return 1\n+        return 2\n \n     def name(self):\n         return 'x'\n\
        +\n+    def area(self):\n+        def square(x):\n+            return x * x\n+        return square(self.size())\n+\n\
        diff --git a/new.py b/new.py\nnew file mode 100644\n--- /dev/null\n+++ b/new.py\n@@ -0,0 +1,3 @@\n+class Made:\n+    def it(self):\n+        pass\n\
        diff --git a/notes.md b/notes.md\n--- a/notes.md\n+++ b/notes.md\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n";

    fn task(extra: serde_json::Value) -> Task {
        let mut row = json!({"schema_version": 1, "id": "t", "statement": "Add  an\narea.",
            "environment": {"base": "host"}, "fail_to_pass": ["t.py::a", "t.py::b"],
            "pass_to_pass": ["t.py::c"], "test_command": ["pytest"], "gold": GOLD});
        row.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        serde_json::from_value(row).unwrap()
    }

    fn read_file(path: &str) -> Option<Vec<u8>> {
        match path {
            "box.py" => Some(SOURCE_TEXT.into()),
            "notes.md" => Some(b"one\ntwo\n".to_vec()),
            _ => None,
        }
    }

    #[test]
    fn task_stats_match_manual_counts() {
        let stats = TaskStats::from_task(
            &task(json!({"created_at": "2024-05-01T12:00:00Z"})),
            Some(&read_file),
        );
        assert_eq!((stats.statement_words, stats.fail_to_pass, stats.tests), (3, 2, 3));
        assert_eq!(stats.date.as_deref(), Some("2024-05-01"));
        let gold = stats.gold.unwrap();
        // box.py: 1 removed, 7 added; new.py: 3 added; notes.md: 1 removed, 1 added.
        assert_eq!((gold.lines, gold.files), (13, 3));
        // Functions size, area, square and it; classes Box and Made.
        assert_eq!((gold.functions, gold.classes), (4, 2));
        // Functions area, area.square and Made.it; class Made.
        assert_eq!((gold.functions_added, gold.classes_added), (3, 1));
        // 9 lines in box.py and 2 in notes.md; new.py did not exist.
        assert_eq!(gold.oracle_lines, Some(11));
        // 4 lines in area, which contains square, and 3 in Made.
        assert_eq!((gold.added_lines, gold.estimated), (Some(7), false));
    }

    #[test]
    fn task_stats_without_source_use_only_the_diff() {
        let gold = TaskStats::from_task(&task(json!({})), None).gold.unwrap();
        assert!(gold.estimated);
        assert_eq!((gold.oracle_lines, gold.added_lines), (None, None));
        assert_eq!((gold.lines, gold.files), (13, 3));
        assert_eq!((gold.functions, gold.classes), (4, 2));
        assert_eq!((gold.functions_added, gold.classes_added), (3, 1));
        let known = json!({"benchmark": {"name": "fea-bench", "details": {"functions_added": 9, "classes_added": 8}}});
        let gold = TaskStats::from_task(&task(known), None).gold.unwrap();
        assert_eq!((gold.functions_added, gold.classes_added), (9, 8));
    }

    #[test]
    fn task_stats_measure_the_masked_source() {
        let mask = "--- a/box.py\n+++ b/box.py\n@@ -5,5 +5,2 @@ class Box:\n     def size(self):\n         return 1\n-\n-    def name(self):\n-        return 'x'\n";
        let task = task(json!({"gold": null, "mask": mask}));
        let gold = TaskStats::from_task(&task, Some(&read_file)).gold.unwrap();
        assert_eq!((gold.oracle_lines, gold.functions_added), (Some(6), 1));
        assert_eq!((gold.lines, gold.added_lines), (3, Some(2)));
    }

    #[test]
    fn dataset_stats_skip_unknown_figures_and_divide_sums() {
        let known = TaskStats::from_task(&task(json!({"repo": "a/b"})), Some(&read_file));
        let unknown =
            TaskStats::from_task(&task(json!({"repo": "a/c", "created_at": "2023-01-01"})), None);
        let stats = DatasetStats::from_tasks("d", vec![known, unknown]);
        assert_eq!((stats.tasks, stats.repositories, stats.estimated, stats.dated), (2, 2, 1, 1));
        assert_eq!((stats.oracle_lines, stats.gold_lines), (Some(11.0), Some(13.0)));
        assert_eq!(stats.added_component_share, Some(0.5385));
        assert_eq!(stats.first_date.as_deref(), Some("2023-01-01"));
        let empty = DatasetStats::from_tasks("d", Vec::new());
        assert_eq!((empty.tests, empty.added_component_share), (None, None));
    }
}
