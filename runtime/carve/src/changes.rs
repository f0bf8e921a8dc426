//! Creates patches from the contents of files before and after a change.

use proctor_patch::{FilePatch, MODE_FILE, RawPath};

/// Returns a patch for the given files. Each file has a path, the text before and the text after
/// the change. Content is `None` if the file does not exist at that point.
pub fn build_patch<'a>(
    changes: impl IntoIterator<Item = (&'a str, Option<&'a str>, Option<&'a str>)>,
) -> String {
    let side = |text: Option<&str>| text.map(|text| (MODE_FILE, text.as_bytes().to_vec()));
    let mut out = Vec::new();
    for (path, before, after) in changes {
        let patch = FilePatch::from_sides(&RawPath::from(path), side(before), side(after));
        // Omit blob ids and modes, so that the patch applies regardless of the files' modes.
        FilePatch { blob_ids: None, old_mode: None, new_mode: None, ..patch }.write(&mut out);
    }
    // This loses nothing, because lines and names are UTF-8.
    String::from_utf8_lossy(&out).into_owned()
}
