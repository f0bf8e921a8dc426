//! What a patch may not do, what the errors say, and what the policy leaves out.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

mod common;

use common::{Node, Nodes, file, resolved, tree_of};
use pretty_assertions::assert_eq;
use proctor_record::{
    Blobs,
    patch::{self, PatchPolicy, between},
};

fn nodes(list: &[(&str, Node)]) -> Nodes {
    list.iter().map(|(path, node)| (path.as_bytes().to_vec(), node.clone())).collect()
}

fn error(base: &Nodes, patch: &str) -> String {
    resolved(base, patch.as_bytes()).unwrap_err().to_string()
}

fn creation(path: &str) -> String {
    format!(
        "diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
    )
}

#[test]
fn hostile_paths_are_refused_by_name() {
    let base = nodes(&[]);
    for (path, why) in [
        ("../x", "leads out"),
        ("a/../../x", "leads out"),
        (".git/config", ".git"),
        ("sub/.GIT/hooks/x", ".git"),
        ("a//x", "empty component"),
        ("./x", "empty component"),
    ] {
        let text = error(&base, &creation(path));
        assert!(text.contains(why), "{path}: {text}");
        assert!(patch::touched(creation(path).as_bytes()).is_err(), "{path}");
        assert!(patch::reverse(creation(path).as_bytes()).is_err(), "{path}");
    }
    let absolute = "--- /dev/null\n+++ /etc/passwd\n@@ -0,0 +1 @@\n+x\n";
    assert!(error(&base, absolute).contains("absolute"));
    let nul = "--- /dev/null\n+++ \"b/a\\000b\"\n@@ -0,0 +1 @@\n+x\n";
    assert!(error(&base, nul).contains("NUL"));
}

#[test]
fn nothing_is_written_through_a_link() {
    let link = "diff --git a/d b/d\nnew file mode 120000\n--- /dev/null\n+++ b/d\n\
                @@ -0,0 +1 @@\n+/etc\n\\ No newline at end of file\n";
    let both = format!("{link}{}", creation("d/x"));
    assert!(error(&nodes(&[]), &both).contains("through the link d"));
    let base = nodes(&[("d", Node::Link(b"/etc".to_vec()))]);
    assert!(error(&base, &creation("d/x")).contains("through the link d"));
    let base = nodes(&[("d", file("x"))]);
    assert!(error(&base, &creation("d/x")).contains("d is a file"));
}

#[test]
fn a_wrong_line_count_names_the_file_the_hunk_and_the_counts() {
    let base = nodes(&[("x.py", file("a\nb\nc\n"))]);
    let short = "--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,9 @@\n a\n-b\n+B\n c\n";
    let text = error(&base, short);
    assert!(text.contains("line 3: x.py: hunk 1 says 3 old and 9 new"), "{text}");
    assert!(text.contains("its body has 3 and 3"), "{text}");
    let long = "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n c\n";
    assert!(error(&base, long).contains("its body has 3 and 3"));
    let header = "--- a/x.py\n+++ b/x.py\n@@ ... @@\n a\n";
    assert!(error(&base, header).contains("no hunk follows"));
    let range = "--- a/x.py\n+++ b/x.py\n@@ -1,x +1 @@\n a\n";
    assert!(error(&base, range).contains("header that cannot be read"));
}

#[test]
fn a_conflict_says_what_stands_there() {
    let base = nodes(&[("x.py", file("a\nb\nc\n"))]);
    let other = "--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n a\n-z\n+B\n c\n";
    assert_eq!(error(&base, other), "x.py: hunk 1 does not apply: line 2 is \"b\" and not \"z\"");
    let ends = "--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n a\r\n-b\r\n+B\r\n c\r\n";
    assert!(error(&base, ends).contains("only the ends of its lines differ"));
    let tail = "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n";
    assert!(error(&base, tail).contains("must end the file"));
    let absent = "--- a/y.py\n+++ b/y.py\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n";
    assert!(error(&base, absent).contains("y.py: there is no such file"));
    assert!(error(&base, &creation("x.py")).contains("it is there already"));
}

#[test]
fn text_that_is_no_patch_is_said_to_be_none() {
    let base = nodes(&[]);
    assert!(error(&base, "I could not do it.\n").contains("no file in it"));
    assert!(error(&base, "@@ -1 +1 @@\n-a\n+b\n").contains("a hunk without a file"));
    assert!(error(&base, "--- x\n+++ x\n@@ -1 +1 @@\n-a\n+b\n").contains("prefix"));
    assert_eq!(resolved(&base, b"").unwrap(), base);
    assert_eq!(resolved(&base, b"\n").unwrap(), base);
}

#[test]
fn the_habits_of_models_are_read() {
    let base = nodes(&[("x.py", file("a\n\nc\n"))]);
    let end = nodes(&[("x.py", file("a\n\nC\n"))]);
    // No git header, a mail's head, an empty context line without its blank, no last newline.
    let text = "Here is it:\n\n--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n a\n\n-c\n+C";
    assert_eq!(resolved(&base, text.as_bytes()).unwrap(), end);
    let crlf = "--- a/x.py\r\n+++ b/x.py\r\n@@ -1,3 +1,3 @@\r\n a\n\n-c\n+C\n";
    assert_eq!(resolved(&base, crlf.as_bytes()).unwrap(), end);
    // Twice the same file: the second goes on from the first.
    let twice = format!(
        "{text}\n--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n-a\n+A\n \n C\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+n\n"
    );
    let end = nodes(&[("x.py", file("A\n\nC\n")), ("n", file("n\n"))]);
    assert_eq!(resolved(&base, twice.as_bytes()).unwrap(), end);
    // `new file mode` forgotten.
    let forgot = "diff --git a/n b/n\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+n\n";
    assert!(resolved(&base, forgot.as_bytes()).unwrap().contains_key(&b"n"[..]));
}

#[test]
fn files_may_swap_their_names() {
    let base = nodes(&[("a", file("1\n")), ("b", file("2\n"))]);
    let swap = "diff --git a/a b/b\nrename from a\nrename to b\n\
                diff --git a/b b/a\nrename from b\nrename to a\n";
    let end = nodes(&[("a", file("2\n")), ("b", file("1\n"))]);
    assert_eq!(resolved(&base, swap.as_bytes()).unwrap(), end);
    let back = patch::reverse(swap.as_bytes()).unwrap();
    assert_eq!(resolved(&end, &back).unwrap(), base);
}

#[test]
fn binary_content_that_is_not_there_is_said_so() {
    let base = nodes(&[("x", Node::File(vec![0], false))]);
    let text = "diff --git a/x b/x\nindex 1..2 100644\nBinary files a/x and b/x differ\n";
    assert!(error(&base, text).contains("--binary"));
    assert!(patch::reverse(text.as_bytes()).is_err());
    let bomb = "diff --git a/x b/x\nGIT binary patch\nliteral 99999999999\nA00000\n\n";
    assert!(error(&base, bomb).contains("over the limit"));
    let other = format!(
        "diff --git a/x b/x\nindex {}..{} 100644\nGIT binary patch\nliteral 0\nHcmV?d00001\n\n",
        "1".repeat(40),
        "2".repeat(40)
    );
    assert!(error(&base, &other).contains("another content"));
}

#[test]
fn the_policy_leaves_out_what_it_says_and_lists_it() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::at(folder.path());
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
    let (base_tree, end_tree) = (tree_of(&base, &blobs), tree_of(&end, &blobs));
    let made = between(&base_tree, &end_tree, &blobs, &policy).unwrap();
    let left: Vec<_> =
        made.left_out.iter().map(|one| (one.path.to_string(), &one.why[..])).collect();
    let ignored = "new, and ignored by the tree's .gitignore";
    let expected = [
        ("image.png", "binary, by policy"),
        ("long", "200 bytes, over the limit of 150"),
        ("new.egg-info", "new, and made by a tool, by policy"),
        ("new.log", ignored),
        ("out", ignored),
        ("pkg/__pycache__", "a cache or a tool's own data, by policy"),
    ];
    assert_eq!(left, expected.map(|(path, why)| (path.to_owned(), why)));
    let after = resolved(&base, &made.bytes).unwrap();
    let mut wanted = end.clone();
    wanted.retain(|path, _| {
        let path = String::from_utf8_lossy(path).into_owned();
        !expected.iter().any(|(out, _)| path == *out || path.starts_with(&format!("{out}/")))
    });
    assert_eq!(after, wanted);
    assert_eq!(made.files, 8);
    let none = between(&base_tree, &base_tree, &blobs, &policy).unwrap();
    assert_eq!(none, patch::Patch::default());
}

/// The cap of a whole patch: the work comes first, whatever lies around it under whatever name, and what
/// does not fit is named.
#[test]
fn a_heap_of_data_never_pushes_out_the_work() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::at(folder.path());
    let base = nodes(&[("src/work.py", file("a\n"))]);
    let mut end = nodes(&[("src/work.py", file("b\n")), ("src/new.py", file("new\n"))]);
    for number in 0..40 {
        // Before the work by name, and each of another content.
        let text = format!("{number}\n").repeat(300);
        end.extend(nodes(&[(&format!("a{number:02}"), file(&text))]));
    }
    let (base, end) = (tree_of(&base, &blobs), tree_of(&end, &blobs));
    let of = |policy: &PatchPolicy| between(&base, &end, &blobs, policy).unwrap();
    let whole = of(PatchPolicy::shipped().unwrap());
    assert_eq!((whole.files, whole.left_out.len()), (42, 0));

    let few = of(&PatchPolicy { files_limit: 2, ..PatchPolicy::shipped().unwrap().clone() });
    let text = String::from_utf8(few.bytes).unwrap();
    assert!(text.contains("+b\n") && text.contains("+new\n") && !text.contains("a00"), "{text}");
    assert_eq!((few.files, few.left_out.len()), (2, 40));
    assert!(few.left_out[0].why.contains("more than 2 files"), "{:?}", few.left_out[0]);

    let small = of(&PatchPolicy { bytes_limit: 4000, ..PatchPolicy::shipped().unwrap().clone() });
    assert!(small.bytes.len() <= 4000 && small.files > 2, "{} bytes", small.bytes.len());
    assert!(String::from_utf8(small.bytes).unwrap().contains("+b\n"));
    assert!(small.left_out[0].why.contains("more than 4000 bytes"), "{:?}", small.left_out[0]);

    let cheap =
        of(&PatchPolicy { content_limit_bytes: 3000, ..PatchPolicy::shipped().unwrap().clone() });
    assert!(cheap.files > 2 && cheap.left_out.len() > 30, "{}", cheap.left_out.len());

    let listed = of(&PatchPolicy {
        files_limit: 2,
        left_out_limit: 3,
        ..PatchPolicy::shipped().unwrap().clone()
    });
    let last = listed.left_out.last().unwrap();
    assert_eq!((listed.left_out.len(), &last.why[..]), (4, "and 37 further paths"));
}

#[test]
fn a_path_that_no_sandbox_can_name_at_once_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::at(folder.path());
    let deep = format!("{}f", "d/".repeat(600));
    let end = nodes(&[("kept", file("x\n")), (&deep, file("y\n"))]);
    let (base, end) = (tree_of(&Nodes::new(), &blobs), tree_of(&end, &blobs));
    let made = between(&base, &end, &blobs, PatchPolicy::shipped().unwrap()).unwrap();
    assert_eq!(made.files, 1);
    let left: Vec<_> = made.left_out.iter().map(|one| one.path.to_string()).collect();
    assert_eq!(left, ["d"]);
}
