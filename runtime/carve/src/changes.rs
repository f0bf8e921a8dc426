//! Creates patches from changed texts.

use proctor_patch::{FilePatch, MODE_FILE, RawPath};

/// Returns the patch for some files, each given as path, text before and text after. A text is
/// `None` if the file does not exist at that point.
pub fn build_patch<'a>(
    changes: impl IntoIterator<Item = (&'a str, Option<&'a str>, Option<&'a str>)>,
) -> String {
    let side = |text: Option<&str>| text.map(|text| (MODE_FILE, text.as_bytes().to_vec()));
    let mut out = Vec::new();
    for (path, before, after) in changes {
        let patch = FilePatch::between(&RawPath::from(path), side(before), side(after));
        // Omit blob ids and modes, so that the patch applies whatever the files' modes are.
        FilePatch { index: None, old_mode: None, new_mode: None, ..patch }.write(&mut out);
    }
    // This loses nothing, because lines and names are UTF-8.
    String::from_utf8_lossy(&out).into_owned()
}
