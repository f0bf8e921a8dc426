//! Prepares the task as an arm's agent receives it. `[statement]` can remove interfaces, show tests
//! or add hints.

use std::sync::Arc;

use proctor_types::{DetailField, StatementSpec, Task};

/// Heading of the section with signatures. Everything from this heading on is removed, as with
/// FeatureBench's `--without`.
const INTERFACES_HEADING: &str = "## Interface Descriptions";

/// Markers in FEA-Bench's statements: the start of the definitions section, which follows an
/// announcement line, and the end of the statement.
const DEFINITIONS: [&str; 2] = ["<<NEW DEFINITIONS>>", "<<END>>"];
/// Beginning of the announcement line.
const DEFINITIONS_ANNOUNCEMENT: &str = "There are several new functions or classes";

/// The first words of the headings above signatures in statements that `proctor collect` and
/// recipes generate. There is one section per file. Level 2 statements also have sections for the
/// new package and for the code that its interface refers to.
const SIGNATURE_HEADINGS: [&str; 3] =
    ["## `", "## What `agent_code` must have", "## What the library has"];

/// Template for a statement followed by hints, which the loader option `hints=true` also produces.
const HINTS_TEMPLATE: &str = include_str!("../../../prompts/swe-bench/hints.md.j2");

/// Template of the line that tells the agent about a test file it can see.
const VISIBLE_TEST_TEMPLATE: &str = include_str!("../../../prompts/featurebench/white.md.j2");

/// Variable in [`VISIBLE_TEST_TEMPLATE`].
const PATH_VARIABLE: &str = "{{ path }}";

/// Returns the task as an arm receives it. Its ID does not change.
pub fn apply_statement(task: &Arc<Task>, options: StatementSpec) -> Arc<Task> {
    if options.is_default() {
        return Arc::clone(task);
    }
    let mut given = task.as_ref().clone();
    if let Some(statement) = without_interfaces(&task.statement).filter(|_| !options.interfaces) {
        given.statement = statement;
        // Also remove the interfaces from the details, because some scaffolds build their own
        // prompt from the details.
        given.details.new_components = DetailField::default();
        if let Some(benchmark) = &mut given.benchmark {
            benchmark.details.new_components = DetailField::default();
        }
    }
    if let Some(hints) = missing_hints(task).filter(|_| options.hints) {
        let text = HINTS_TEMPLATE.replace("{{ hints }}", hints);
        given.statement = text.replacen("{{ statement }}", &given.statement, 1).trim_end().into();
    }
    let shown = visible_tests(task);
    if options.tests && !shown.is_empty() {
        given.statement = with_visible_tests(&given, &shown);
        given.hidden.retain(|path| !shown.contains(path));
        if let Some(benchmark) = &mut given.benchmark {
            benchmark.details.white = true.into();
        }
    }
    Arc::new(given)
}

/// Whether the statement has a section that `interfaces = false` removes.
pub fn has_interfaces(task: &Task) -> bool {
    without_interfaces(&task.statement).is_some()
}

/// Returns the statement without its signature sections, or `None` if it has none.
fn without_interfaces(statement: &str) -> Option<String> {
    if let Some(end) = statement.find(INTERFACES_HEADING) {
        return Some(statement[..end].trim_end().to_owned());
    }
    // The feature request may quote the marker, so search from the end.
    let Some(mark) = statement.rfind(DEFINITIONS[0]) else { return without_sections(statement) };
    let before = statement[..mark].trim_end();
    let line = before.rfind('\n').map_or(0, |at| at + 1);
    let kept =
        if before[line..].starts_with(DEFINITIONS_ANNOUNCEMENT) { &before[..line] } else { before };
    let end = statement[mark..].find(DEFINITIONS[1]).map_or(statement.len(), |at| mark + at);
    Some(format!("{}\n\n\n{}", kept.trim_end(), &statement[end..]).trim_end().to_owned())
}

/// Removes the signature sections from a collected statement. Headings inside code blocks are
/// ignored.
fn without_sections(statement: &str) -> Option<String> {
    let (mut kept, mut in_code, mut in_section, mut found) = (String::new(), false, false, false);
    for line in statement.split_inclusive('\n') {
        if line.starts_with("```") {
            in_code = !in_code;
        } else if !in_code && line.starts_with("## ") {
            in_section = SIGNATURE_HEADINGS.iter().any(|heading| line.starts_with(heading));
            found |= in_section;
        }
        if !in_section {
            kept.push_str(line);
        }
    }
    found.then_some(kept)
}

/// Returns the issue discussion about the task's feature request, unless the statement already
/// contains this discussion.
pub fn missing_hints(task: &Task) -> Option<&str> {
    let hints = task.details()?.discussion.non_empty_text()?.trim();
    (!hints.is_empty() && !task.statement.contains(hints)).then_some(hints)
}

/// Returns the hidden files that contain the task's fail-to-pass tests. `tests = true` shows these
/// files to the agent. Files that only exist in a patch for grading are not included.
pub fn visible_tests(task: &Task) -> Vec<String> {
    let holds = |path: &String| {
        task.fail_to_pass.iter().any(|id| {
            let file = id.split("::").next().unwrap_or(id);
            let rest = file.strip_prefix(path.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    };
    task.hidden.iter().filter(|path| holds(path)).cloned().collect()
}

/// Adds the paths of test files to the statement as FeatureBench's `--white` does: as bullets after
/// the bullets of the statement's note, or at the top if there is no note. FeatureBench names only
/// the first file.
fn with_visible_tests(task: &Task, files: &[String]) -> String {
    let official =
        task.benchmark.as_ref().is_some_and(|benchmark| benchmark.name == "featurebench");
    let named = if official { &files[..1] } else { files };
    // If the image sets the work directory, the directory's path is not known yet. The agent starts
    // in the work directory, so a relative path works.
    let place = |file: &String| match task.workdir.as_str() {
        "" => file.clone(),
        workdir => format!("{workdir}/{file}"),
    };
    let bullets: String = named
        .iter()
        .map(|file| VISIBLE_TEST_TEMPLATE.replace(PATH_VARIABLE, &place(file)))
        .collect();
    let statement = &task.statement;
    let Some(note) = statement.find("**NOTE**") else {
        return format!("{bullets}\n{statement}");
    };
    let lines: Vec<&str> = statement[note..].split_inclusive('\n').collect();
    let is_bullet = |line: &&str| line.trim_start().starts_with("- ");
    let at = match lines.iter().position(is_bullet) {
        Some(first) => first + lines[first..].iter().take_while(|line| is_bullet(line)).count(),
        None => 1,
    };
    let (before, after) = lines.split_at(at);
    [&statement[..note], &before.concat(), &bullets, &after.concat()].concat()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn task(statement: &str, level: u32) -> Arc<Task> {
        let hidden = if level == 1 { json!(["tests/test_a.py"]) } else { json!([]) };
        let task = json!({
            "schema_version": 1, "id": "a__b.lv1", "statement": statement, "hidden": hidden,
            "environment": {"base": "host"}, "fail_to_pass": ["tests/test_a.py"],
            "test_command": ["pytest"], "benchmark": {"name": "featurebench"},
        });
        Arc::new(serde_json::from_value(task).unwrap())
    }

    fn statement_spec(interfaces: bool, tests: bool) -> StatementSpec {
        StatementSpec { interfaces, tests, hints: false }
    }

    const PLAIN_STATEMENT: &str =
        "## Task\nDo it.\n\n## Interface Descriptions\n### a\n`def a()`\n";

    #[test]
    fn featurebench_statement_shows_its_test_if_requested() {
        let noted = "## Task\n**NOTE**: \n- One.\n- Two.\n\nMore.\n- Three.\n";
        let bullet = "- You are given access to the test file `/testbed/tests/test_a.py` for this task \
                      (white-box testing). Use this information to help you solve the problem.\n";
        let row = task(noted, 1);
        let white = apply_statement(&row, statement_spec(true, true));
        assert_eq!(apply_statement(&row, statement_spec(true, false)).hidden, ["tests/test_a.py"]);
        assert!(white.hidden.is_empty() && white.id == row.id);
        assert_eq!(white.statement, noted.replace("\n\nMore", &format!("\n{bullet}\nMore")));
        let plain = apply_statement(&task(PLAIN_STATEMENT, 1), statement_spec(false, true));
        assert_eq!(plain.statement, format!("{bullet}\n## Task\nDo it."));
        let scratch = apply_statement(&task(PLAIN_STATEMENT, 2), statement_spec(true, true));
        assert_eq!(scratch.statement, PLAIN_STATEMENT, "there is no file to show");
    }

    #[test]
    fn own_task_shows_only_files_with_its_tests() {
        let mut own = task("Do it.", 1).as_ref().clone();
        own.benchmark = None;
        own.hidden =
            ["tests/unit/", "tests/units/x.py", "answers.txt", "b.py"].map(str::to_owned).to_vec();
        own.fail_to_pass =
            ["tests/unit/test_a.py::test_x", "b.py::test_y"].map(str::to_owned).to_vec();
        let own = Arc::new(own);
        let given = apply_statement(&own, statement_spec(true, true));
        assert_eq!(given.hidden, ["tests/units/x.py", "answers.txt"]);
        for file in ["/testbed/tests/unit/`", "/testbed/b.py`"] {
            assert!(given.statement.contains(file), "{}", given.statement);
        }
    }

    #[test]
    fn without_interfaces_removes_the_section_to_the_end() {
        assert_eq!(
            apply_statement(&task(PLAIN_STATEMENT, 1), statement_spec(false, false)).statement,
            "## Task\nDo it."
        );
        assert_eq!(
            apply_statement(&task("No section.\n", 1), statement_spec(false, false)).statement,
            "No section.\n"
        );
    }

    #[test]
    fn collected_statement_loses_only_signature_sections() {
        let first = "# Implement `f` in p\n\nPut it back.\n\n## `p/a.py`\n\nFunction `f`\n\n```python\ndef f():\n\
                     ## no heading\n    ...\n```\n\n## `p/b.py`\n\n```python\n...\n```\n\n## Rules\n\n- Do it.\n";
        let kept = "# Implement `f` in p\n\nPut it back.\n\n## Rules\n\n- Do it.\n";
        assert_eq!(apply_statement(&task(first, 1), statement_spec(false, false)).statement, kept);
        let second = "# Write `f`\n\n## What `agent_code` must have\n\n```python\ndef f():\n```\n\n\
                      ## What else the tests require\n\n- This.\n\n## What the library has\n\n```python\nA = 1\n```\n\n## Rules\n";
        let kept = "# Write `f`\n\n## What else the tests require\n\n- This.\n\n## Rules\n";
        assert_eq!(apply_statement(&task(second, 2), statement_spec(false, false)).statement, kept);
        assert!(!has_interfaces(&task("# Fix it\n\n## Rules\n", 1)));
    }

    #[test]
    fn fea_bench_statement_omits_definitions_and_adds_hints() {
        let request =
            "This is\n<<NEW FEATURE REQUEST>>\n<request>\nT <<NEW DEFINITIONS>>\n</request>";
        let statement = format!(
            "{request}\n\n\nThere are several new functions or classes that need to be implemented: \n\
             <<NEW DEFINITIONS>>\n<definitions>\ndef f():\n</definitions>\n\n\nPlease note\n<<END>>"
        );
        let mut fea = task(&statement, 2).as_ref().clone();
        let component = json!({"file": "a.py", "kind": "function", "name": "f", "signature": "def f():", "doc": ""});
        fea.benchmark = serde_json::from_value(json!({
            "name": "fea-bench",
            "details": {"new_components": [component], "discussion": "<issues>\n7\n</issues>"},
        }))
        .unwrap();
        let fea = Arc::new(fea);
        assert!(fea.details().unwrap().new_components.get().is_some());
        let hidden = apply_statement(&fea, statement_spec(false, false));
        assert_eq!(hidden.statement, format!("{request}\n\n\n<<END>>"));
        assert!(hidden.details().unwrap().new_components.is_absent());
        let asked = StatementSpec { hints: true, ..StatementSpec::default() };
        let told = apply_statement(&fea, asked);
        let ending = "<<END>>\n\n## Hints\n\n<issues>\n7\n</issues>";
        assert!(told.statement.ends_with(ending), "{}", told.statement);
        assert_eq!(
            apply_statement(&told, asked).statement,
            told.statement,
            "hints are added only once"
        );
    }
}
