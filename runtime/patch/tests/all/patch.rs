//! Tests forbidden operations, error messages, and partly unreadable patches.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

use pretty_assertions::assert_eq;
use proctor_patch::{Change, CurrentFile, Patch, RawPath};

use crate::common::{Node, Nodes, file, resolve_on};

fn nodes(list: &[(&str, Node)]) -> Nodes {
    list.iter().map(|(path, node)| (path.as_bytes().to_vec(), node.clone())).collect()
}

fn resolve_error(base: &Nodes, patch: &str) -> String {
    resolve_on(base, patch.as_bytes()).unwrap_err().to_string()
}

fn creation_patch(path: &str) -> String {
    format!(
        "diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
    )
}

#[test]
fn errors_for_hostile_paths_name_the_path() {
    let base = nodes(&[]);
    for (path, why) in [
        ("../x", "leaves the work"),
        ("a/../../x", "leaves the work"),
        (".git/config", ".git"),
        ("sub/.GIT/hooks/x", ".git"),
        ("a//x", "empty component"),
        ("./x", "empty component"),
    ] {
        let text = resolve_error(&base, &creation_patch(path));
        assert!(text.contains(why), "{path}: {text}");
        assert!(Patch::parse(creation_patch(path).as_bytes()).touched_paths().is_err(), "{path}");
        assert!(Patch::parse(creation_patch(path).as_bytes()).reverse().is_err(), "{path}");
    }
    let absolute = "--- /dev/null\n+++ /etc/passwd\n@@ -0,0 +1 @@\n+x\n";
    assert!(resolve_error(&base, absolute).contains("absolute"));
    let nul = "--- /dev/null\n+++ \"b/a\\000b\"\n@@ -0,0 +1 @@\n+x\n";
    assert!(resolve_error(&base, nul).contains("NUL"));
}

#[test]
fn patches_never_write_through_links() {
    let link = "diff --git a/d b/d\nnew file mode 120000\n--- /dev/null\n+++ b/d\n\
                @@ -0,0 +1 @@\n+/etc\n\\ No newline at end of file\n";
    let both = format!("{link}{}", creation_patch("d/x"));
    assert!(resolve_error(&nodes(&[]), &both).contains("through the link d"));
    let base = nodes(&[("d", Node::Link(b"/etc".to_vec()))]);
    assert!(resolve_error(&base, &creation_patch("d/x")).contains("through the link d"));
    let base = nodes(&[("d", file("x"))]);
    assert!(resolve_error(&base, &creation_patch("d/x")).contains("d is a file"));
}

#[test]
fn wrong_line_count_names_file_hunk_and_counts() {
    let base = nodes(&[("x.py", file("a\nb\nc\n"))]);
    let short = "--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,9 @@\n a\n-b\n+B\n c\n";
    let text = resolve_error(&base, short);
    assert!(text.contains("line 3: x.py: the header of hunk 1 says 3 old and 9 new"), "{text}");
    assert!(text.contains("its body has 3 and 3"), "{text}");
    let long = "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n c\n";
    assert!(resolve_error(&base, long).contains("its body has 3 and 3"));
    let header = "--- a/x.py\n+++ b/x.py\n@@ ... @@\n a\n";
    assert!(resolve_error(&base, header).contains("no hunk after"));
    let range = "--- a/x.py\n+++ b/x.py\n@@ -1,x +1 @@\n a\n";
    assert!(resolve_error(&base, range).contains("has an invalid header"));
}

#[test]
fn conflict_shows_the_existing_line() {
    let base = nodes(&[("x.py", file("a\nb\nc\n"))]);
    let other = "--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n a\n-z\n+B\n c\n";
    assert_eq!(
        resolve_error(&base, other),
        "x.py: hunk 1 does not apply: line 2 is \"b\", not \"z\""
    );
    let ends = "--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n a\r\n-b\r\n+B\r\n c\r\n";
    assert!(resolve_error(&base, ends).contains("only the line endings differ"));
    let tail = "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n";
    assert!(resolve_error(&base, tail).contains("must match at the end of the file"));
    let absent = "--- a/y.py\n+++ b/y.py\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n";
    assert!(resolve_error(&base, absent).contains("y.py: there is no such file"));
    assert!(resolve_error(&base, &creation_patch("x.py")).contains("it already exists"));
}

#[test]
fn text_without_a_patch_is_rejected() {
    let base = nodes(&[]);
    assert!(resolve_error(&base, "I could not do it.\n").contains("no files found"));
    assert!(resolve_error(&base, "@@ -1 +1 @@\n-a\n+b\n").contains("a hunk without a file"));
    assert!(resolve_error(&base, "--- x\n+++ x\n@@ -1 +1 @@\n-a\n+b\n").contains("prefix"));
    assert_eq!(resolve_on(&base, b"").unwrap(), base);
    assert_eq!(resolve_on(&base, b"\n").unwrap(), base);
}

#[test]
fn sloppy_patches_from_models_are_parsed() {
    let base = nodes(&[("x.py", file("a\n\nc\n"))]);
    let end = nodes(&[("x.py", file("a\n\nC\n"))]);
    // The patch has text instead of a Git header, an empty context line without its space, and no
    // final newline.
    let text = "Here is it:\n\n--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n a\n\n-c\n+C";
    assert_eq!(resolve_on(&base, text.as_bytes()).unwrap(), end);
    let crlf = "--- a/x.py\r\n+++ b/x.py\r\n@@ -1,3 +1,3 @@\r\n a\n\n-c\n+C\n";
    assert_eq!(resolve_on(&base, crlf.as_bytes()).unwrap(), end);
    // The patch contains the same file twice. The second entry applies to the result of the first.
    let twice = format!(
        "{text}\n--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n-a\n+A\n \n C\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+n\n"
    );
    let end = nodes(&[("x.py", file("A\n\nC\n")), ("n", file("n\n"))]);
    assert_eq!(resolve_on(&base, twice.as_bytes()).unwrap(), end);
    // `new file mode` is missing.
    let forgot = "diff --git a/n b/n\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+n\n";
    assert!(resolve_on(&base, forgot.as_bytes()).unwrap().contains_key(&b"n"[..]));
}

#[test]
fn files_may_swap_their_names() {
    let base = nodes(&[("a", file("1\n")), ("b", file("2\n"))]);
    let swap = "diff --git a/a b/b\nrename from a\nrename to b\n\
                diff --git a/b b/a\nrename from b\nrename to a\n";
    let end = nodes(&[("a", file("2\n")), ("b", file("1\n"))]);
    assert_eq!(resolve_on(&base, swap.as_bytes()).unwrap(), end);
    let back = Patch::parse(swap.as_bytes()).reverse().unwrap().to_bytes();
    assert_eq!(resolve_on(&end, &back).unwrap(), base);
}

#[test]
fn missing_binary_content_is_reported() {
    let base = nodes(&[("x", Node::File(vec![0], false))]);
    let text = "diff --git a/x b/x\nindex 1..2 100644\nBinary files a/x and b/x differ\n";
    assert!(resolve_error(&base, text).contains("--binary"));
    assert!(Patch::parse(text.as_bytes()).reverse().is_err());
    let bomb = "diff --git a/x b/x\nGIT binary patch\nliteral 99999999999\nA00000\n\n";
    assert!(resolve_error(&base, bomb).contains("exceed the limit"));
    let other = format!(
        "diff --git a/x b/x\nindex {}..{} 100644\nGIT binary patch\nliteral 0\nHcmV?d00001\n\n",
        "1".repeat(40),
        "2".repeat(40)
    );
    assert!(resolve_error(&base, &other).contains("for other content"));
}

#[test]
fn inputs_found_by_fuzzing_round_trip() {
    let base = nodes(&[("x", Node::File(b"1\n".to_vec(), false))]);
    let body = "--- a/x\n+++ b/x\n@@ -1 +1 @@ f\r\r\n-1\n+2\n";
    for text in [
        // The ids are invalid, and the lines end in several carriage returns.
        format!("diff --git a/x b/x\r\r\nindex 1..2\r\r\n{body}"),
        format!("diff --git a/x b/x\nindex one..two 100755\n{body}"),
        // There is only one mode line, or there are two with the same mode.
        "diff --git a/x b/x\nnew mode 100755\n".into(),
        "diff --git a/x b/x\nold mode 100755\nnew mode 100755\n".into(),
    ] {
        let patch = Patch::parse(text.as_bytes());
        let written = patch.to_bytes();
        assert_eq!(Patch::parse(&written).to_bytes(), written, "{text}");
        let after = resolve_on(&base, text.as_bytes()).unwrap();
        assert_eq!(resolve_on(&base, &written).unwrap(), after, "{text}");
    }
}

#[test]
fn paths_include_new_deleted_renamed_and_quoted_files() {
    let text = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n--- not a file\n+++ b/nor this\n\
        diff --git a/gone.py b/gone.py\ndeleted file mode 100644\n--- a/gone.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\
        diff --git a/old name.py b/new name.py\nsimilarity index 100%\nrename from old name.py\nrename to new name.py\n\
        diff --git a/a b/c.py b/a b/c.py\n\
        diff --git \"a/\\303\\251.py\" \"b/\\303\\251.py\"\n";
    let patch = Patch::parse(text.as_bytes());
    let names = |patch: &Patch| patch.paths().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names(&patch), ["x.py", "gone.py", "new name.py", "a b/c.py", "é.py"]);
    let parts: String = patch.files.iter().map(|file| &text[file.text_range.clone()]).collect();
    assert_eq!((patch.files.len(), &parts[..]), (5, text));
    assert_eq!(patch.count_changed_lines(), (1, 2));
    let dated = Patch::parse(b"--- a/x.py\t2020\n+++ b/x.py\t2021\n@@ -1 +1 @@\n");
    assert_eq!(names(&dated), ["x.py"]);
}

/// Code that only inspects a patch, for example to count changes, uses the parts that could be
/// parsed. Code that needs the whole patch gets the error.
#[test]
fn parsed_parts_are_usable_if_the_patch_is_malformed() {
    for (text, names, lines) in [
        ("--- a/x\n+++ b/x\n@@ -1,x +1 @@\n-1\n@@ -9 +9 @@\n-a\n+b\n", vec!["x"], (1, 1)),
        ("--- a/x\n+++ b/x\n@@ -1,1 +1,9 @@\n-1\n+a\n+b\n", vec!["x"], (2, 1)),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n+a\n+b\n+c\n", vec!["x"], (3, 1)),
        (
            "--- x\n+++ x\n@@ -1 +1 @@\n-a\n+b\n--- a/y\n+++ b/y\n@@ -0,0 +1 @@\n+y\n",
            vec!["x", "y"],
            (2, 1),
        ),
        ("diff --git a/x b/x\nold mode 9\nnew mode 100755\n", vec!["x"], (0, 0)),
        ("diff --git a/x b/y\n--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", vec!["y"], (1, 1)),
        (
            "diff --git a/x b/x\nGIT binary patch\nliteral 3\nA!\n\n--- a/y\n+++ b/y\n@@ -1 +0,0 @@\n-y\n",
            vec!["x", "y"],
            (0, 1),
        ),
        ("@@ -1 +1 @@\n-a\n+b\n", vec![], (0, 0)),
    ] {
        let patch = Patch::parse(text.as_bytes());
        let found: Vec<_> = patch.paths().iter().map(ToString::to_string).collect();
        assert_eq!(
            (found, patch.count_changed_lines()),
            (names.iter().map(|name| (*name).to_owned()).collect(), lines),
            "{text}"
        );
        assert!(patch.touched_paths().is_err() && patch.resolve(&|_| None).is_err(), "{text}");
        assert!(patch.reverse().is_err(), "{text}");
    }
}

/// Regression test, found by fuzzing. The patch was written with a header, and then could only be
/// applied if `b.py` existed.
#[test]
fn headerless_patch_is_written_without_header() {
    let base = nodes(&[("a.py", file("a\n"))]);
    // A header of another file before the patch has no effect. Without the line `junk`, this header
    // would be parsed as the header of `b.py`.
    for before in
        ["", "diff --git a/a.py b/a.py\n", "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n"]
    {
        let patch = format!("{before}junk\n--- a/b.py\n+++ b/b.py\n@@ -0,0 +1 @@\n+x\n");
        let written = Patch::parse(patch.as_bytes()).to_bytes();
        let after = resolve_on(&base, patch.as_bytes()).unwrap();
        assert_eq!(after.len(), 2, "{patch}");
        assert_eq!(resolve_on(&base, &written).unwrap(), after, "{}", written.escape_ascii());
        assert_eq!(Patch::parse(&written).to_bytes(), written);
    }
}

/// The patched files with their new text, and the skipped parts of the patch.
type LenientResult = (Vec<(String, String)>, Vec<String>);

/// Returns the result of `resolve_lenient`, including the parts that it reports as skipped.
fn resolve_lenient_text(base: &[(&str, &str)], patch: &str) -> Result<LenientResult, String> {
    let current = |path: &RawPath| {
        let found = base.iter().find(|(name, _)| name.as_bytes() == path.as_bytes());
        found.map(|(_, text)| CurrentFile::File { bytes: text.as_bytes().to_vec(), mode: 0o644 })
    };
    let resolved = Patch::parse(patch.as_bytes()).resolve_lenient(&current);
    let resolved = resolved.map_err(|error| error.to_string())?;
    let changes = resolved.changes.into_iter().map(|change| match change {
        Change::Write { path, bytes, .. } => (path.to_string(), String::from_utf8(bytes).unwrap()),
        other => (format!("{other:?}"), String::new()),
    });
    Ok((changes.collect(), resolved.skipped_parts))
}

const VALID_PART: &str = "diff --git a/g b/g\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-g\n+G\n";

#[test]
fn inapplicable_parts_are_reported_and_skipped() {
    let gitlink = |body: &str| format!("diff --git a/v/d b/v/d\n{body}");
    let commit = "Subproject commit 1111111111111111111111111111111111111111\n";
    for (odd, name) in [
        (
            "diff --git a/app b/app\nnew file mode 100755\nindex 0000000..1234567\n\
             Binary files /dev/null and b/app differ\n"
                .to_owned(),
            "app: skipped, because the patch does not contain the binary content",
        ),
        (
            "diff --git a/x b/x\nindex 0000001..1234567 100644\nBinary files a/x and b/x differ\n"
                .to_owned(),
            "x: skipped, because the patch does not contain the binary content",
        ),
        (
            gitlink(&format!(
                "new file mode 160000\n--- /dev/null\n+++ b/v/d\n@@ -0,0 +1 @@\n+{commit}"
            )),
            "v/d: skipped a submodule",
        ),
        (
            gitlink(&format!(
                "index 2222222..1111111 160000\n--- a/v/d\n+++ b/v/d\n@@ -1 +1 @@\n-{commit}+{commit}"
            )),
            "v/d: skipped a submodule",
        ),
        (
            gitlink(&format!(
                "deleted file mode 160000\n--- a/v/d\n+++ /dev/null\n@@ -1 +0,0 @@\n-{commit}"
            )),
            "v/d: skipped a submodule",
        ),
    ] {
        let base = [("g", "g\n"), ("x", "x\n")];
        for patch in [format!("{VALID_PART}{odd}"), format!("{odd}{VALID_PART}")] {
            let (changes, left_out) = resolve_lenient_text(&base, &patch).unwrap();
            assert_eq!(changes, [("g".to_owned(), "G\n".to_owned())], "{patch}");
            assert!(left_out.len() == 1 && left_out[0].starts_with(name), "{left_out:?}");
            let strict = nodes(&[("g", file("g\n")), ("x", file("x\n"))]);
            assert!(resolve_on(&strict, patch.as_bytes()).is_err(), "{patch}");
        }
    }
    // All other errors still reject the whole patch.
    let conflict = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-y\n+z\n";
    assert!(
        resolve_lenient_text(&[("g", "g\n"), ("x", "x\n")], &format!("{VALID_PART}{conflict}"))
            .is_err()
    );
    let hostile = "diff --git a/../v b/../v\nnew file mode 160000\n--- /dev/null\n+++ b/../v\n@@ -0,0 +1 @@\n+x\n";
    assert!(resolve_lenient_text(&[("g", "g\n")], &format!("{VALID_PART}{hostile}")).is_err());
}

#[test]
fn trailing_blank_context_may_be_stripped() {
    let x = "a\nb\nc\n\n\n";
    let stripped = format!("{VALID_PART}--- a/x\n+++ b/x\n@@ -1,5 +1,5 @@\n a\n-b\n+B\n c");
    for patch in [stripped.clone(), format!("{stripped}\n"), format!("{stripped}\n \n")] {
        let (changes, left_out) = resolve_lenient_text(&[("g", "g\n"), ("x", x)], &patch).unwrap();
        assert_eq!(changes[1], ("x".to_owned(), "a\nB\nc\n\n\n".to_owned()), "{patch}");
        let is_repair = left_out[0].starts_with("x: hunk 1 is missing its last");
        assert!(left_out.len() == 1 && is_repair, "{left_out:?}");
    }
    // Only blank lines follow the change.
    let added = "--- a/x\n+++ b/x\n@@ -1,3 +1,4 @@\n a\n+b\n";
    let (changes, _) = resolve_lenient_text(&[("x", "a\n\n\nz\n")], added).unwrap();
    assert_eq!(changes, [("x".to_owned(), "a\nb\n\n\nz\n".to_owned())]);
    // There are more blank lines than GNU `patch` allows, they precede another file, or they are on
    // one side only.
    for bad in [
        "--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n a\n-b\n+B\n c\n".to_owned(),
        format!("--- a/x\n+++ b/x\n@@ -1,5 +1,5 @@\n a\n-b\n+B\n c\n{VALID_PART}"),
        "--- a/x\n+++ b/x\n@@ -1,5 +1,3 @@\n a\n-b\n+B\n c\n".to_owned(),
    ] {
        assert!(resolve_lenient_text(&[("g", "g\n"), ("x", x)], &bad).is_err(), "{bad}");
    }
}

#[test]
fn crlf_patch_applies_to_an_lf_file() {
    let lf = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n";
    let crlf = lf.replace('\n', "\r\n");
    let written = |text: &str| vec![("x".to_owned(), text.to_owned())];
    let (changes, left_out) = resolve_lenient_text(&[("x", "a\nb\nc\n")], &crlf).unwrap();
    assert_eq!(changes, written("a\nB\nc\n"));
    assert!(left_out.len() == 1 && left_out[0].contains("carriage returns"), "{left_out:?}");
    // If the file also has carriage returns, no part is reported.
    let same = resolve_lenient_text(&[("x", "a\r\nb\r\nc\r\n")], &crlf).unwrap();
    assert_eq!(same, (written("a\r\nB\r\nc\r\n"), Vec::new()));
    // No tool applies the opposite case (carriage returns in the file only), or a body that does
    // not match its header.
    assert!(resolve_lenient_text(&[("x", "a\r\nb\r\nc\r\n")], lf).is_err());
    let body = lf.replace(" a\n", " a\r\n");
    assert!(resolve_lenient_text(&[("x", "a\nb\nc\n")], &body).is_err());
}
