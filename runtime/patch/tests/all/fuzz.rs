//! Patches come from models and may contain any bytes.

use fuzz::{fuzz, told};
use proctor_patch::{Current, Patch, RawPath};

#[test]
fn arbitrary_bytes_parse_or_return_an_error() {
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/seeds/patches");
    fuzz(seeds, |bytes| {
        let patch = Patch::read(bytes);
        patch.names();
        patch.added_and_removed();
        for file in &patch.files {
            assert!(bytes.get(file.text.clone()).is_some(), "{:?} is out of range", file.text);
        }
        let resolved = patch.resolve(&tree);
        if let Err(error) = &resolved {
            told(&error.to_string(), "");
        }
        if let Err(error) = patch.touched() {
            told(&error.to_string(), "");
            return false;
        }
        // Writing and parsing it again yields the same patch.
        let written = patch.to_bytes();
        let again = Patch::read(&written);
        assert_eq!(again.touched(), patch.touched(), "{}", written.escape_ascii());
        assert_eq!(again.to_bytes().escape_ascii().to_string(), written.escape_ascii().to_string());
        if resolved.is_ok() {
            assert_eq!(again.resolve(&tree), resolved, "{}", written.escape_ascii());
        }
        if let Ok(back) = patch.reversed() {
            back.to_bytes();
        }
        true
    });
}

/// Returns the tree that the seed patches apply to.
fn tree(path: &RawPath) -> Option<Current> {
    let file = |text: &str| Some(Current::File { bytes: text.into(), mode: 0o644 });
    match path.as_bytes() {
        b"x.py" => file("a\nb\nc\nd\ne\nf\ng\nh\n"),
        b"end.txt" => file("one\ntwo"),
        b"b.bin" => file("\0\u{1}\u{2}binary"),
        b"a b.txt" => file("hi\n"),
        b"run.sh" => file("run\n"),
        b"link" => Some(Current::Link { target: RawPath::from("x.py") }),
        _ => None,
    }
}
