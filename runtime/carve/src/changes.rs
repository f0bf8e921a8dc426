//! Turns changed texts into patches.

use proctor_patch::{FilePatch, MODE_FILE, RawPath};

/// The patch of some files: path, text before, text after. A missing file has no text.
pub fn patch_of<'a>(
    changes: impl IntoIterator<Item = (&'a str, Option<&'a str>, Option<&'a str>)>,
) -> String {
    let side = |text: Option<&str>| text.map(|text| (MODE_FILE, text.as_bytes().to_vec()));
    let mut out = Vec::new();
    for (path, before, after) in changes {
        let patch = FilePatch::between(&RawPath::from(path), side(before), side(after));
        // No ids and no modes, so that it applies whatever the modes are.
        FilePatch { index: None, old_mode: None, new_mode: None, ..patch }.write(&mut out);
    }
    // Lines of two texts, and names that are text.
    String::from_utf8_lossy(&out).into_owned()
}
