//! Tests that code behind symbolic links is screened.

use std::collections::{BTreeMap, BTreeSet};

use proctor_patch::CurrentFile;

use super::{patch, text_file, violated_rules_of_patch};
use crate::PatchChanges;

/// Returns a patch that adds a symbolic link.
fn link_patch(path: &str, target: &str) -> String {
    format!(
        "diff --git a/{path} b/{path}\nnew file mode 120000\n--- /dev/null\n+++ b/{path}\n\
         @@ -0,0 +1 @@\n+{target}\n\\ No newline at end of file\n"
    )
}

/// Returns the rules that a patch violates if it adds a link and a text file.
fn violated_rules_behind_link(link: &str, target: &str, text: &str) -> BTreeSet<String> {
    let patch = link_patch(link, target) + &patch("docs/notes.md", "", text);
    let old = text_file("import sys\nframe = sys._getframe()\n");
    let before = BTreeMap::from([
        ("docs/old.txt".to_owned(), old),
        ("roman/old".to_owned(), CurrentFile::Link { target: "../docs/old.txt".into() }),
    ]);
    violated_rules_of_patch(&patch, &before, &|path| !path.starts_with("tests/"))
}

#[test]
fn code_behind_links_is_screened() {
    let code = "# Notes\n\nimport sys\nframe = sys._getframe()";
    for (link, target, text, expected) in [
        ("roman/_impl.py", "../docs/notes.md", code, Some("frames")),
        ("roman/_impl.py", "./../docs//notes.md", code, Some("frames")),
        ("roman/_impl.py", "../docs/old.txt", "text", Some("frames")),
        ("roman/_impl.py", "old", "text", Some("frames")),
        ("roman/_impl.py", "../docs/missing.md", "text", Some("unreadable-code")),
        ("roman/_impl.py", "/tmp/impl.py", "text", Some("unreadable-code")),
        ("roman/_impl.py", "../../impl.py", "text", Some("unreadable-code")),
        ("roman/_impl.py", "../tests/helper.py", "text", Some("unreadable-code")),
        ("roman/_impl.py", "_impl.py", "text", Some("unreadable-code")),
        ("roman/_impl.so", "../docs/notes.md", "text", Some("unreadable-code")),
        ("roman/_impl.py", "../docs/notes.md", "import json\nx = json.dumps(1)", None),
        ("docs/latest.md", "notes.md", code, None),
        ("docs/latest", "/srv/docs", "text", None),
        ("tests/link.py", "../docs/notes.md", code, None),
    ] {
        let found = violated_rules_behind_link(link, target, text);
        let expected: BTreeSet<String> = expected.into_iter().map(ToOwned::to_owned).collect();
        assert_eq!(found, expected, "{link} -> {target}");
    }
}

#[test]
fn linked_paths_returns_targets_of_importable_links() {
    let patch = [("roman/a.py", "../docs/a.md"), ("b.md", "a.md"), ("c.py", "/tmp/c.py")]
        .map(|(path, target)| link_patch(path, target))
        .concat();
    let found = PatchChanges::new(patch.as_bytes(), &BTreeMap::new()).linked_paths();
    assert_eq!(found, BTreeSet::from(["docs/a.md".to_owned()]));
}
