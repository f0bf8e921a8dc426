//! Fuzzes patches. They come from models and may contain any bytes.

use fuzz::{assert_error_text, fuzz};
use proctor_patch::{CurrentFile, Patch, RawPath};

#[test]
fn arbitrary_bytes_parse_or_return_an_error() {
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/seeds/patches");
    fuzz(seeds, |bytes| {
        let patch = Patch::parse(bytes);
        patch.paths();
        patch.count_changed_lines();
        for file in &patch.files {
            assert!(
                bytes.get(file.text_range.clone()).is_some(),
                "{:?} is out of range",
                file.text_range
            );
        }
        let resolved = patch.resolve(&seed_file);
        if let Err(error) = &resolved {
            assert_error_text(&error.to_string(), "");
        }
        if let Err(error) = patch.touched_paths() {
            assert_error_text(&error.to_string(), "");
            return false;
        }
        // Parsing the written patch yields the same patch.
        let written = patch.to_bytes();
        let again = Patch::parse(&written);
        assert_eq!(again.touched_paths(), patch.touched_paths(), "{}", written.escape_ascii());
        assert_eq!(again.to_bytes().escape_ascii().to_string(), written.escape_ascii().to_string());
        if resolved.is_ok() {
            assert_eq!(again.resolve(&seed_file), resolved, "{}", written.escape_ascii());
        }
        if let Ok(back) = patch.reverse() {
            back.to_bytes();
        }
        true
    });
}

/// Returns the tree that the seed patches apply to.
fn seed_file(path: &RawPath) -> Option<CurrentFile> {
    let file = |text: &str| Some(CurrentFile::File { bytes: text.into(), mode: 0o644 });
    match path.as_bytes() {
        b"x.py" => file("a\nb\nc\nd\ne\nf\ng\nh\n"),
        b"end.txt" => file("one\ntwo"),
        b"b.bin" => file("\0\u{1}\u{2}binary"),
        b"a b.txt" => file("hi\n"),
        b"run.sh" => file("run\n"),
        b"link" => Some(CurrentFile::Link { target: RawPath::from("x.py") }),
        _ => None,
    }
}
