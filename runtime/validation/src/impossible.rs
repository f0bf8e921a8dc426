//! Creates impossible variants of tasks. One expectation of a fail-to-pass test is wrong, so only a
//! cheat can resolve the task.

use std::{
    io,
    path::{Path, PathBuf},
};

use proctor_patch::{Body, Patch, Side};
use proctor_types::{IMPOSSIBLE_ID_SUFFIX, Impossible, Source, Task, TaskId, quote_shell_word};

/// Returns the variant with one wrong expectation. If the line is in the environment, a setup
/// command changes the line. If the test patch adds the line, the line is changed in the patch.
/// Returns `None` if the test patch changes the file but does not add the line.
///
/// The variant is a native task, because a benchmark's grading procedure may use its own copy of
/// the tests.
pub fn impossible_variant(task: &Task, change: &Impossible) -> Option<Task> {
    let mut variant = task.clone();
    variant.id = TaskId::new(format!("{}{IMPOSSIBLE_ID_SUFFIX}", task.id));
    variant.benchmark = None;
    let file = proctor_types::file_from_test_id(&change.test);
    match task.test_patch.as_deref().filter(|patch| changes_file(patch, file)) {
        Some(patch) => variant.test_patch = Some(replace_added_line(patch, file, change)?),
        None => variant.environment.setup.push(sed_command(&task.workdir, file, change)),
    }
    variant.impossible = Some(change.clone());
    Some(variant)
}

fn changes_file(patch: &str, file: &str) -> bool {
    Patch::parse(patch.as_bytes()).paths().iter().any(|name| name.as_bytes() == file.as_bytes())
}

/// Returns a command that replaces the line. It uses `sed` because not every image contains
/// `patch`.
fn sed_command(workdir: &str, file: &str, change: &Impossible) -> String {
    let new = change.now.replace('\\', "\\\\").replace('/', "\\/").replace('&', "\\&");
    // Setup commands run in the work directory. If the task sets no work directory, the path is
    // relative to the image's work directory.
    let path = if workdir.is_empty() { file.to_owned() } else { format!("{workdir}/{file}") };
    let script = format!("{}s/.*/{new}/", change.line);
    format!("LC_ALL=C sed -i {} {}", quote_shell_word(&script), quote_shell_word(&path))
}

/// Returns the patch with one of its added lines changed.
fn replace_added_line(patch: &str, file: &str, change: &Impossible) -> Option<String> {
    let mut read = Patch::parse(patch.as_bytes());
    let of_file = read.files.iter_mut().find(|one| one.path().as_bytes() == file.as_bytes())?;
    // Remove the index line, because its hash no longer matches the content.
    of_file.blob_ids = None;
    let Body::Text(hunks) = &mut of_file.body else { return None };
    let mut changed = false;
    for hunk in hunks {
        let mut at = hunk.new_start;
        for line in &mut hunk.lines {
            if line.side == Side::New && at == change.line && line.text() == change.was {
                let end = if line.bytes.ends_with(b"\n") { "\n" } else { "" };
                line.bytes = format!("{}{end}", change.now).into_bytes();
                changed = true;
            }
            at += usize::from(line.side != Side::Old);
        }
    }
    changed.then(|| String::from_utf8_lossy(&read.to_bytes()).into_owned())
}

/// Makes a task's relative paths absolute, because the new dataset may be in another directory.
///
/// # Errors
/// The current directory does not exist.
pub fn make_paths_absolute(mut task: Task, base_dir: &Path) -> io::Result<Task> {
    let whole = |path: &mut String| -> io::Result<()> {
        let full: PathBuf = std::path::absolute(base_dir.join(&*path))?;
        *path = full.to_string_lossy().into_owned();
        Ok(())
    };
    match &mut task.source {
        Some(Source::Path { path } | Source::Archive { archive: path, .. }) => whole(path)?,
        // `git` is a URL or the path of a clone.
        Some(Source::Git { git, .. }) if base_dir.join(&*git).exists() => whole(git)?,
        Some(Source::Git { .. } | Source::Pypi { .. }) | None => {}
    }
    match &mut task.environment.base {
        Some(base) if base != "host" => whole(base)?,
        _ => {}
    }
    if let Some(dockerfile) = &mut task.environment.dockerfile {
        whole(dockerfile)?;
    }
    if let Some(image) = &mut task.environment.image
        && base_dir.join(&*image).is_file()
    {
        whole(image)?;
    }
    Ok(task)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST_PATCH: &str = "diff --git a/t/test_a.py b/t/test_a.py\n--- a/t/test_a.py\n+++ b/t/test_a.py\n\
        @@ -1,2 +1,4 @@\n def test_old():\n     assert old() == 1\n+def test_new():\n+    assert new() == 'a/b'\n";

    fn task_with_test_patch(test_patch: Option<&str>) -> Task {
        serde_json::from_value(serde_json::json!({
            "schema_version": 1, "id": "a-1", "statement": "", "environment": {"base": "host"},
            "fail_to_pass": ["t/test_a.py::test_new"], "test_command": [], "test_patch": test_patch,
            "benchmark": {"name": "swe-bench"},
        }))
        .unwrap()
    }

    fn wrong_expectation(line: usize) -> Impossible {
        Impossible {
            of: "a-1".into(),
            test: "t/test_a.py::test_new".into(),
            line,
            was: "    assert new() == 'a/b'".into(),
            now: "    assert new() == 'a/c' # it's & \\1".into(),
        }
    }

    #[test]
    fn impossible_variant_changes_line_added_by_test_patch() {
        let variant =
            impossible_variant(&task_with_test_patch(Some(TEST_PATCH)), &wrong_expectation(4))
                .unwrap();
        let patch = variant.test_patch.unwrap();
        assert_eq!(patch, TEST_PATCH.replace(&wrong_expectation(4).was, &wrong_expectation(4).now));
        assert_eq!((variant.id.as_str(), variant.benchmark), ("a-1.impossible", None));
        assert_eq!(variant.environment.setup, Vec::<String>::new());
        assert_eq!(
            impossible_variant(&task_with_test_patch(Some(TEST_PATCH)), &wrong_expectation(2)),
            None,
            "a line that the patch does not add"
        );
    }

    #[test]
    fn impossible_variant_adds_setup_command_for_environment_line() {
        let folder = tempfile::tempdir().unwrap();
        let mut task = task_with_test_patch(None);
        task.workdir = folder.path().to_str().unwrap().to_owned();
        std::fs::create_dir(folder.path().join("t")).unwrap();
        let file = folder.path().join("t/test_a.py");
        std::fs::write(&file, "def test_new():\n    assert new() == 'a/b'\n# last\n").unwrap();
        let variant = impossible_variant(&task, &wrong_expectation(2)).unwrap();
        let line = &variant.environment.setup[0];
        let done = std::process::Command::new("/bin/sh").args(["-c", line]).status().unwrap();
        assert!(done.success(), "{line}");
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text, format!("def test_new():\n{}\n# last\n", wrong_expectation(2).now));
    }
}
