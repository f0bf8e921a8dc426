//! Removes items from comma-separated lists, such as the names in an import or the entries of
//! `__all__`.

use super::edits::{Edit, line_end, line_start};

/// An item in a list, and whether to remove the item.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListItem {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) is_removed: bool,
}

/// Returns the edits that remove items. The result is a valid list in which the remaining items
/// keep their comments. At least one item must remain: callers handle lists that become empty.
pub(super) fn removal_edits(text: &str, items: &[ListItem]) -> Vec<Edit> {
    let mut out = Vec::new();
    for (index, item) in items.iter().enumerate().filter(|(_, item)| item.is_removed) {
        match comma_after(text, item.end) {
            Some(comma) => out.push(item_removal(text, item.start, comma + 1)),
            // The last item has no comma after it, so remove everything after the last item that
            // remains.
            None => {
                let from = items[..index].iter().rev().find(|item| !item.is_removed);
                out.push(Edit::deletion(from.map_or(item.start, |item| item.end), item.end));
            }
        }
    }
    out
}

fn item_removal(text: &str, start: usize, end: usize) -> Edit {
    let (first, last) = (line_start(text, start), line_end(text, end));
    let rest = text[end..last].trim();
    // The item is alone on its line, so remove the whole line, including any comment.
    if text[first..start].trim().is_empty() && (rest.is_empty() || rest.starts_with('#')) {
        return Edit::deletion(first, last);
    }
    // The item is the last one on its line, so don't leave trailing whitespace.
    if rest.is_empty() {
        let head = text[..start].trim_end_matches([' ', '\t']).len();
        return Edit::deletion(
            head,
            last - text[end..last].trim_start_matches([' ', '\t', '\r']).len(),
        );
    }
    let spaces = text[end..last].len() - text[end..last].trim_start_matches([' ', '\t']).len();
    Edit::deletion(start, end + spaces)
}

/// Finds the comma after an item, skipping whitespace and comments.
pub(super) fn comma_after(text: &str, mut offset: usize) -> Option<usize> {
    loop {
        let rest = &text[offset..];
        offset += rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n', '\\']).len();
        match text[offset..].chars().next()? {
            ',' => return Some(offset),
            '#' => offset = line_end(text, offset),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::edits::apply_edits, *};

    fn remove_items(text: &str, removed_items: &[&str]) -> String {
        let mut items = Vec::new();
        for name in ["aa", "bb", "cc"] {
            let start = text.find(name).unwrap();
            items.push(ListItem {
                start,
                end: start + name.len(),
                is_removed: removed_items.contains(&name),
            });
        }
        apply_edits(text, removal_edits(text, &items))
    }

    #[test]
    fn removal_edits_handle_every_position_and_layout() {
        let line = "[aa, bb, cc]";
        assert_eq!(remove_items(line, &["aa"]), "[bb, cc]");
        assert_eq!(remove_items(line, &["bb"]), "[aa, cc]");
        assert_eq!(remove_items(line, &["cc"]), "[aa, bb]");
        assert_eq!(remove_items(line, &["bb", "cc"]), "[aa]");
        assert_eq!(remove_items("[aa, bb, cc, ]", &["cc"]), "[aa, bb, ]");
        let lines = "(\n    aa,\n    bb,  # note\n    cc,\n)";
        assert_eq!(remove_items(lines, &["bb"]), "(\n    aa,\n    cc,\n)");
        assert_eq!(remove_items(lines, &["aa", "cc"]), "(\n    bb,  # note\n)");
        assert_eq!(remove_items("(aa, bb,  # x\n cc)", &["cc"]), "(aa, bb)");
    }
}
