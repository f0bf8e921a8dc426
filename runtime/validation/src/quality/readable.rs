//! Finds fail-to-pass tests that the agent can read.

use proctor_patch::{Change, CurrentFile, Patch, RawPath};
use proctor_types::{Task, file_from_test_id};

/// Returns the ids of fail-to-pass tests whose function is in the agent's initial files exactly as
/// grading runs it. `read_file` returns a file from the agent's initial work directory.
///
/// If `test_patch` changes the file, the test counts as readable only if its function stays the
/// same.
pub fn readable_tests(task: &Task, read_file: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let is_readable = |id: &&String| {
        let file = file_from_test_id(id);
        if !file.ends_with(".py") {
            return false;
        }
        let Some(seen) = read_file(file) else { return false };
        let names = id_components(id);
        let Some(function) = function_lines(&seen, &names) else { return false };
        match file_after_test_patch(task, file, &seen) {
            Some(graded) => function_lines(&graded, &names) == Some(function),
            None => true,
        }
    };
    task.fail_to_pass.iter().filter(is_readable).cloned().collect()
}

/// Returns the file after `test_patch`, or `None` if the patch does not change it. Returns an empty
/// text if the patch does not apply to the original, because grading then runs another version of
/// the file.
fn file_after_test_patch(task: &Task, file: &str, original: &str) -> Option<String> {
    let path = RawPath::from(file);
    let mut patch = Patch::parse(task.test_patch.as_deref()?.as_bytes());
    patch.files.retain(|file| file.path() == path);
    if patch.files.is_empty() {
        return None;
    }
    let current = |asked: &RawPath| {
        let bytes = original.as_bytes().to_vec();
        (*asked == path).then_some(CurrentFile::File { bytes, mode: 0o644 })
    };
    let changes = patch.resolve(&current).unwrap_or_default();
    let written = changes.into_iter().find_map(|change| match change {
        Change::Write { path: written, bytes, .. } if written == path => Some(bytes),
        _ => None,
    });
    Some(String::from_utf8_lossy(&written.unwrap_or_default()).into_owned())
}

/// Returns the class and function names in a test id: `TestSlug` and `test_empty` for
/// `tests/test_slug.py::TestSlug::test_empty[a::b]`. Returns nothing if the id is a file.
fn id_components(id: &str) -> Vec<&str> {
    let plain = id.split_once('[').map_or(id, |(plain, _)| plain);
    plain.split("::").skip(1).collect()
}

/// Returns the lines of the function with the given class and function names. Trailing whitespace
/// and empty lines are removed. Without names, returns the whole file if it defines a test.
fn function_lines(text: &str, names: &[&str]) -> Option<Vec<String>> {
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if names.is_empty() && !lines.iter().any(|line| defined_name(line).is_some_and(is_test)) {
        return None;
    }
    for (depth, name) in names.iter().enumerate() {
        // Skip the `class` line itself.
        let inside = lines.get(usize::from(depth > 0)..)?;
        let is_placed = |line: &str| depth > 0 || indent_width(line) == 0;
        let start =
            inside.iter().position(|line| is_placed(line) && defined_name(line) == Some(*name))?;
        let (head, rest) = inside.get(start..)?.split_first()?;
        let indent = indent_width(head);
        let is_inside = |line: &&&str| {
            indent_width(line) > indent || line.trim_start().starts_with([')', ']', '}'])
        };
        let body = rest.iter().take_while(is_inside);
        lines = std::iter::once(head).chain(body).copied().collect();
    }
    Some(lines.into_iter().map(|line| line.trim_end().to_owned()).collect())
}

/// Returns the name of the class or function that a line defines.
fn defined_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("async ").unwrap_or(line).trim_start();
    let rest = line.strip_prefix("def ").or_else(|| line.strip_prefix("class "))?.trim_start();
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    rest.get(..end)
}

fn is_test(name: &str) -> bool {
    name.starts_with("test") || name.starts_with("Test")
}

fn indent_width(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTS: &str = "from slug import slugify\n\n\nclass TestSlug:\n    def test_words(self):\n        \
        assert slugify(\"a b\") == \"a-b\"\n\n    async def test_empty(\n        self,\n    ):\n        \
        assert slugify(\"\") == \"\"\n\n\ndef test_plain():\n    assert slugify(\"a\") == \"a\"\n";

    fn task(ids: &[&str], test_patch: Option<&str>) -> Task {
        serde_json::from_value(serde_json::json!({
            "schema_version": 1, "id": "t", "statement": "", "environment": {}, "fail_to_pass": ids,
            "test_command": [], "test_patch": test_patch
        }))
        .unwrap()
    }

    fn readable_ids(ids: &[&str], test_patch: Option<&str>) -> Vec<String> {
        let read = |path: &str| (path == "tests/test_slug.py").then(|| TESTS.to_owned());
        readable_tests(&task(ids, test_patch), &read)
    }

    #[test]
    fn function_in_initial_files_is_readable() {
        let seen = [
            "tests/test_slug.py::test_plain[a::b]",
            "tests/test_slug.py::TestSlug::test_empty",
            "tests/test_slug.py",
        ];
        assert_eq!(readable_ids(&seen, None), seen);
        let unseen = [
            "tests/test_slug.py::test_words",
            "tests/test_slug.py::TestSlug::test_plain",
            "tests/test_other.py::test_plain",
            "test_plain (slug.TestSlug)",
        ];
        assert!(readable_ids(&unseen, None).is_empty());
    }

    #[test]
    fn function_changed_by_test_patch_is_not_readable() {
        let patch = "--- a/tests/test_slug.py\n+++ b/tests/test_slug.py\n@@ -14,2 +14,3 @@\n \
                     def test_plain():\n     assert slugify(\"a\") == \"a\"\n+    assert slugify(\"B\") == \"b\"\n";
        let ids = ["tests/test_slug.py::test_plain", "tests/test_slug.py::TestSlug::test_words"];
        assert_eq!(readable_ids(&ids, Some(patch)), ids[1..]);
        assert_eq!(readable_ids(&ids, Some(&patch.replace("test_slug", "test_new"))), ids);
    }
}
