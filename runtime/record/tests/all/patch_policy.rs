//! Tests which changes the policy leaves out of the patch between two trees.

use pretty_assertions::assert_eq;
use proctor_record::{Blobs, CollectedPatch, PatchPolicy, collect_patch};

use crate::common::{Node, Nodes, file, resolve_on, tree_from_nodes};

fn nodes(entries: &[(&str, Node)]) -> Nodes {
    entries.iter().map(|(path, node)| (path.as_bytes().to_vec(), node.clone())).collect()
}

#[test]
fn patch_lists_paths_excluded_by_policy() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::new(folder.path());
    let base = nodes(&[
        ("lib.egg-info/SOURCES", file("1\n")),
        ("tracked.log", file("1\n")),
        ("x.py", file("1\n")),
    ]);
    let end = nodes(&[
        (".gitignore", file("*.log\n/out/\n!keep.log\n")),
        ("lib.egg-info/SOURCES", file("2\n")),
        ("tracked.log", file("2\n")),
        ("new.log", file("2\n")),
        ("keep.log", file("2\n")),
        ("out/a", file("2\n")),
        ("out/keep.log", file("2\n")),
        ("sub/.gitignore", file("!*.log\n")),
        ("sub/kept.log", file("2\n")),
        ("sub/out/kept", file("2\n")),
        ("new.egg-info/SOURCES", file("2\n")),
        ("pkg/__pycache__/x.pyc", Node::File(vec![0], false)),
        ("pkg/__pycache__/y.pyc", Node::File(vec![0], false)),
        ("image.png", Node::File(vec![0, 1], false)),
        ("long", file(&"x\n".repeat(100))),
        ("x.py", file("2\n")),
    ]);
    let policy = PatchPolicy {
        binary: false,
        file_limit_bytes: 150,
        ..PatchPolicy::shipped().unwrap().clone()
    };
    let (base_tree, end_tree) = (tree_from_nodes(&base, &blobs), tree_from_nodes(&end, &blobs));
    let made = collect_patch(&base_tree, &end_tree, &blobs, &policy).unwrap();
    let left: Vec<_> =
        made.omitted_paths.iter().map(|one| (one.path.to_string(), &one.why[..])).collect();
    let ignored = "new, and ignored by the repository's .gitignore";
    let expected = [
        ("image.png", "binary, excluded by policy"),
        ("long", "200 bytes exceed the limit of 150"),
        ("new.egg-info", "new and created by a tool, excluded by policy"),
        ("new.log", ignored),
        ("out", ignored),
        ("pkg/__pycache__", "cache or internal data of a tool, excluded by policy"),
    ];
    assert_eq!(left, expected.map(|(path, why)| (path.to_owned(), why)));
    let after = resolve_on(&base, &made.bytes).unwrap();
    let mut wanted = end.clone();
    wanted.retain(|path, _| {
        let path = String::from_utf8_lossy(path).into_owned();
        !expected.iter().any(|(out, _)| path == *out || path.starts_with(&format!("{out}/")))
    });
    assert_eq!(after, wanted);
    assert_eq!(made.changed_paths, 8);
    let none = collect_patch(&base_tree, &base_tree, &blobs, &policy).unwrap();
    assert_eq!(none, CollectedPatch::default());
}

/// If the patch's size is limited, changes to existing files take precedence, no matter how many
/// new files there are. Every path that does not fit is listed.
#[test]
fn patch_prefers_source_changes_over_many_new_files() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::new(folder.path());
    let base = nodes(&[("src/work.py", file("a\n"))]);
    let mut end = nodes(&[("src/work.py", file("b\n")), ("src/new.py", file("new\n"))]);
    for number in 0..40 {
        // Create new files that sort before the changed sources and have different contents.
        let text = format!("{number}\n").repeat(300);
        end.extend(nodes(&[(&format!("a{number:02}"), file(&text))]));
    }
    let (base, end) = (tree_from_nodes(&base, &blobs), tree_from_nodes(&end, &blobs));
    let of = |policy: &PatchPolicy| collect_patch(&base, &end, &blobs, policy).unwrap();
    let whole = of(PatchPolicy::shipped().unwrap());
    assert_eq!((whole.changed_paths, whole.omitted_paths.len()), (42, 0));

    let few = of(&PatchPolicy { files_limit: 2, ..PatchPolicy::shipped().unwrap().clone() });
    let text = String::from_utf8(few.bytes).unwrap();
    assert!(text.contains("+b\n") && text.contains("+new\n") && !text.contains("a00"), "{text}");
    assert_eq!((few.changed_paths, few.omitted_paths.len()), (2, 40));
    assert!(
        few.omitted_paths[0].why.contains("would exceed 2 files"),
        "{:?}",
        few.omitted_paths[0]
    );

    let small = of(&PatchPolicy { bytes_limit: 4000, ..PatchPolicy::shipped().unwrap().clone() });
    assert!(small.bytes.len() <= 4000 && small.changed_paths > 2, "{} bytes", small.bytes.len());
    assert!(String::from_utf8(small.bytes).unwrap().contains("+b\n"));
    assert!(
        small.omitted_paths[0].why.contains("would exceed 4000 bytes"),
        "{:?}",
        small.omitted_paths[0]
    );

    let cheap =
        of(&PatchPolicy { content_limit_bytes: 3000, ..PatchPolicy::shipped().unwrap().clone() });
    assert!(
        cheap.changed_paths > 2 && cheap.omitted_paths.len() > 30,
        "{}",
        cheap.omitted_paths.len()
    );

    let listed = of(&PatchPolicy {
        files_limit: 2,
        left_out_limit: 3,
        ..PatchPolicy::shipped().unwrap().clone()
    });
    let last = listed.omitted_paths.last().unwrap();
    assert_eq!((listed.omitted_paths.len(), &last.why[..]), (4, "and 37 more paths"));
}

#[test]
fn patch_omits_too_long_paths() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::new(folder.path());
    let deep = format!("{}f", "d/".repeat(600));
    let end = nodes(&[("kept", file("x\n")), (&deep, file("y\n"))]);
    let (base, end) = (tree_from_nodes(&Nodes::new(), &blobs), tree_from_nodes(&end, &blobs));
    let made = collect_patch(&base, &end, &blobs, PatchPolicy::shipped().unwrap()).unwrap();
    assert_eq!(made.changed_paths, 1);
    let left: Vec<_> = made.omitted_paths.iter().map(|one| one.path.to_string()).collect();
    assert_eq!(left, ["d"]);
}
