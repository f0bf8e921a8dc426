//! Creates patches from changed texts.

use proctor_patch::{FilePatch, MODE_FILE, RawPath};

/// Returns the patch for some files, given as path, text before and text after. The text is `None` if the file does
/// not exist.
pub fn build_patch<'a>(
    changes: impl IntoIterator<Item = (&'a str, Option<&'a str>, Option<&'a str>)>,
) -> String {
    let side = |text: Option<&str>| text.map(|text| (MODE_FILE, text.as_bytes().to_vec()));
    let mut out = Vec::new();
    for (path, before, after) in changes {
        let patch = FilePatch::between(&RawPath::from(path), side(before), side(after));
        // Omit blob ids and modes, so that the patch applies regardless of file modes.
        FilePatch { index: None, old_mode: None, new_mode: None, ..patch }.write(&mut out);
    }
    // Nothing is lost: both the lines and the names are UTF-8.
    String::from_utf8_lossy(&out).into_owned()
}
