//! Lists the work directory after a step, one directory at a time, and shows a file's content.

use std::collections::BTreeMap;

use proctor_record::{Blobs, RecordError, Tree};

use super::{
    JournalIndex,
    urls::{Query, percent_encode},
};
use crate::html::{Entry, Folder, OpenedFile};

/// Maximum number of entries listed per directory, and of bytes shown per file.
const MAX_LISTED_ENTRIES: usize = 1_000;
const MAX_SHOWN_BYTES: usize = 256 << 10;

#[derive(Default)]
struct DirectoryEntry {
    is_folder: bool,
    /// Number of paths below the entry, then how many of them the step changed.
    path_count: u64,
    changed_count: u64,
    size: u64,
    mark: &'static str,
    /// The target of a symbolic link.
    link: String,
}

/// Returns the directory that the query parameter `in` names, with the file that the parameter
/// `open` names. Returns `None` if there is no snapshot yet.
pub fn load_workspace(
    index: &JournalIndex,
    blobs: &Blobs,
    number: u64,
    query: &Query,
) -> Result<Option<Folder>, RecordError> {
    let Some([before, after, _]) = index.trees_around_step(number) else { return Ok(None) };
    let tree = Tree::load(blobs, after)?;
    let earlier = if before == after { tree.clone() } else { Tree::load(blobs, before)? };
    let place = query.first_value("in").trim_matches('/').to_owned();
    let inside = if place.is_empty() { String::new() } else { format!("{place}/") };
    let mut names: BTreeMap<Vec<u8>, DirectoryEntry> = BTreeMap::new();
    let removed_entries =
        earlier.entries.iter().filter(|(path, _)| !tree.entries.contains_key(*path));
    for (path, entry) in tree.entries.iter().chain(removed_entries) {
        let Some(rest) = path.as_bytes().strip_prefix(inside.as_bytes()) else { continue };
        if rest.is_empty() {
            continue;
        }
        let mut parts = rest.splitn(2, |byte| *byte == b'/');
        let below = names.entry(parts.next().unwrap_or_default().to_vec()).or_default();
        let mark = match (earlier.entries.get(path), tree.entries.get(path)) {
            (None, _) => "new",
            (_, None) => "gone",
            (Some(then), Some(now)) if then != now => "changed",
            _ => "",
        };
        if parts.next().is_some() {
            below.is_folder = true;
            below.path_count += 1;
            below.changed_count += u64::from(!mark.is_empty());
        } else {
            // An entry with neither content nor a link target is a directory, or it cannot be read.
            below.is_folder |= entry.hash.is_none() && entry.link.is_none();
            (below.size, below.mark) = (entry.size, mark);
            below.link = entry.link.as_ref().map(ToString::to_string).unwrap_or_default();
        }
    }
    let left_out = names.len().saturating_sub(MAX_LISTED_ENTRIES);
    let opened = query.first_value("open");
    let entry = |(name, below): (Vec<u8>, DirectoryEntry)| {
        // Don't link to a file whose name is not valid UTF-8, because no URL can name it. Removed
        // files and symbolic links cannot be opened either.
        let href = match std::str::from_utf8(&name) {
            Ok(_) if below.mark == "gone" && !below.is_folder => String::new(),
            Ok(_) if !below.link.is_empty() => String::new(),
            Ok(name) if below.is_folder => workspace_url(&format!("{inside}{name}"), ""),
            Ok(name) => workspace_url(&place, &format!("{inside}{name}")),
            Err(_) => String::new(),
        };
        let DirectoryEntry {
            is_folder,
            path_count: paths,
            changed_count: changed,
            size,
            mark,
            link,
        } = below;
        let name = String::from_utf8_lossy(&name).into_owned();
        let is_open = !is_folder && format!("{inside}{name}") == opened;
        Entry { name, href, is_folder, paths, changed, size, mark, link, is_open }
    };
    let (folders, files): (Vec<_>, Vec<_>) =
        names.into_iter().take(MAX_LISTED_ENTRIES).partition(|(_, below)| below.is_folder);
    let entries = folders.into_iter().chain(files).map(entry).collect();
    Ok(Some(Folder {
        above: parent_directories(&place),
        entries,
        left_out,
        paths: tree.entries.len(),
        opened: open_file(&tree, blobs, opened)?,
    }))
}

/// Returns the directories from the top down to this one, each with its URL.
fn parent_directories(directory: &str) -> Vec<(String, String)> {
    let mut all = vec![("/".to_owned(), workspace_url("", ""))];
    let mut path = String::new();
    for part in directory.split('/').filter(|part| !part.is_empty()) {
        path = if path.is_empty() { part.to_owned() } else { format!("{path}/{part}") };
        all.push((part.to_owned(), workspace_url(&path, "")));
    }
    all
}

fn workspace_url(directory: &str, file: &str) -> String {
    let open =
        if file.is_empty() { String::new() } else { format!("&open={}", percent_encode(file)) };
    format!("?in={}{open}#workspace", percent_encode(directory))
}

fn open_file(tree: &Tree, blobs: &Blobs, path: &str) -> Result<Option<OpenedFile>, RecordError> {
    let found = tree.entries.iter().find(|(known, _)| known.as_bytes() == path.as_bytes());
    let Some(hash) = found.and_then(|(_, entry)| entry.hash.clone()).filter(|_| !path.is_empty())
    else {
        return Ok(None);
    };
    let mut opened = OpenedFile { path: path.to_owned(), hash, ..OpenedFile::default() };
    if !blobs.contains(&opened.hash) {
        opened.why_not =
            "Unchanged file from the environment: only its hash is recorded.".to_owned();
        return Ok(Some(opened));
    }
    let bytes = blobs.get(&opened.hash)?;
    let shown_bytes = &bytes[..bytes.len().min(MAX_SHOWN_BYTES)];
    match shown_bytes.contains(&0) {
        true => opened.why_not = format!("Binary file: {} bytes.", bytes.len()),
        false => opened.text = String::from_utf8_lossy(shown_bytes).into_owned(),
    }
    opened.is_cut = bytes.len() > MAX_SHOWN_BYTES;
    opened.is_kept = true;
    Ok(Some(opened))
}
