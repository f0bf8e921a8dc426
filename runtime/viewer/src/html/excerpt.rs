//! Marks where texts differ, and reduces them to the lines that differ.

use std::collections::BTreeSet;

use serde::Serialize;

/// Maximum number of characters in an excerpt: of the common text before the difference, of the
/// difference, and of the common text after it.
const MAX_CHARS: [usize; 3] = [40, 160, 40];
/// Number of lines in an excerpt. More lines are shown only if more than this number of texts
/// differ first in different lines.
const USUAL_LINES: usize = 6;
/// Number of characters shown after each position at which a long line differs from another one.
const WINDOW_CHARS: usize = 60;

/// A text in three parts: the start that it shares with the other texts, the part that differs, and
/// the end that it shares with them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct MarkedText {
    pub(crate) start: String,
    pub(crate) different: String,
    pub(crate) end: String,
}

/// Marks where texts differ from each other. Returns one result per text.
pub(crate) fn mark_differences(texts: &[&str]) -> Vec<MarkedText> {
    let Some(first) = texts.first() else { return Vec::new() };
    let prefix = texts.iter().map(|text| common_length(first.chars(), text.chars())).min();
    let prefix = prefix.unwrap_or_default();
    // Compare only what follows the common start, so that the two common parts never overlap.
    let rests: Vec<&str> = texts.iter().map(|text| &text[prefix..]).collect();
    let first_rest = &first[prefix..];
    let suffix =
        rests.iter().map(|rest| common_length(first_rest.chars().rev(), rest.chars().rev())).min();
    let suffix = suffix.unwrap_or_default();
    let marked = |text: &&str| {
        let end = text.len() - suffix;
        MarkedText {
            start: text[..prefix].to_owned(),
            different: text[prefix..end].to_owned(),
            end: text[end..].to_owned(),
        }
    };
    texts.iter().map(marked).collect()
}

impl MarkedText {
    /// Returns the part of the text around the difference, on one line.
    pub(crate) fn excerpt(&self) -> Self {
        self.excerpt_within(MAX_CHARS[1])
    }

    /// Returns the part of the text around the difference, with at most `within` characters of the
    /// difference.
    fn excerpt_within(&self, within: usize) -> Self {
        let [before, _, after] = MAX_CHARS;
        let flat = |text: &str| -> String {
            text.chars().map(|sign| if sign.is_whitespace() { ' ' } else { sign }).collect()
        };
        let skipped = self.start.chars().count().saturating_sub(before);
        let start: String = self.start.chars().skip(skipped).collect();
        let (different, is_cut) = take_chars(&self.different, within);
        // After a difference that is too long, the common end would look as if it followed directly.
        let (end, more) = if is_cut { ("", true) } else { take_chars(&self.end, after) };
        Self {
            start: format!("{}{}", if skipped > 0 { "\u{2026}" } else { "" }, flat(&start)),
            different: flat(different),
            end: format!("{}{}", flat(end), if more { "\u{2026}" } else { "" }),
        }
    }
}

/// Returns the first characters of a text, and whether there are more.
fn take_chars(text: &str, count: usize) -> (&str, bool) {
    match text.char_indices().nth(count) {
        Some((at, _)) => (&text[..at], true),
        None => (text, false),
    }
}

/// Returns the length in bytes of the characters that two texts have in common at their start.
fn common_length(one: impl Iterator<Item = char>, other: impl Iterator<Item = char>) -> usize {
    one.zip(other).take_while(|(a, b)| a == b).map(|(sign, _)| sign.len_utf8()).sum()
}

/// Returns an excerpt of each text: the lines that differ from other texts, each reduced to the part
/// around the difference. The excerpt of a text contains the first difference to each other text,
/// so two different texts never have the same excerpt. Equal texts have equal excerpts.
pub(crate) fn excerpts(texts: &[&str]) -> Vec<Vec<MarkedText>> {
    // Unlike `lines`, this keeps an empty last line, in which texts may differ.
    let all: Vec<Vec<&str>> = texts.iter().map(|text| text.split('\n').collect()).collect();
    let sets: Vec<BTreeSet<&str>> =
        all.iter().map(|lines| lines.iter().copied().collect()).collect();
    (0..all.len()).map(|index| excerpt_of(index, &all, &sets)).collect()
}

fn excerpt_of(index: usize, all: &[Vec<&str>], sets: &[BTreeSet<&str>]) -> Vec<MarkedText> {
    let Some(lines) = all.get(index) else { return Vec::new() };
    // For each line: the lines of other texts from which it is the first to differ.
    let mut counterparts: Vec<Vec<&str>> = vec![Vec::new(); lines.len()];
    for other in all.iter().filter(|other| *other != lines) {
        let at = lines.iter().zip(other).take_while(|(a, b)| a == b).count();
        if let Some(of_line) = counterparts.get_mut(at) {
            of_line.push(other.get(at).copied().unwrap_or_default());
        }
    }
    let is_first = |at: usize| !counterparts[at].is_empty();
    let is_rare =
        |line: &str| !line.trim().is_empty() && sets.iter().any(|set| !set.contains(line));
    let mut room = USUAL_LINES.saturating_sub((0..lines.len()).filter(|at| is_first(*at)).count());
    let (mut shown, mut last) = (Vec::new(), None);
    let mut left_out = 0;
    for (at, line) in lines.iter().enumerate() {
        if !is_first(at) {
            if !is_rare(line) {
                continue;
            }
            if room == 0 {
                left_out += 1;
                continue;
            }
            room -= 1;
        }
        if last.is_some_and(|last: usize| last + 1 < at) {
            shown.push(MarkedText { start: "\u{2026}".to_owned(), ..MarkedText::default() });
        }
        shown.push(mark_line(line, &counterparts[at]));
        last = Some(at);
    }
    if left_out > 0 {
        let start = format!("[{left_out} more differing lines]");
        shown.push(MarkedText { start, ..MarkedText::default() });
    }
    shown
}

/// Marks where a line differs from its counterparts. Without counterparts, the whole line differs.
fn mark_line(line: &str, counterparts: &[&str]) -> MarkedText {
    let positions: BTreeSet<usize> =
        counterparts.iter().map(|other| common_length(line.chars(), other.chars())).collect();
    let start = positions.first().copied().unwrap_or(0);
    // Compare only what follows the common start, so that the two common parts never overlap.
    let suffix =
        |other: &&str| common_length(line[start..].chars().rev(), other[start..].chars().rev());
    let end = line.len() - counterparts.iter().map(suffix).min().unwrap_or(0);
    let marked = MarkedText {
        start: line[..start].to_owned(),
        different: line[start..end].to_owned(),
        end: line[end..].to_owned(),
    };
    let is_long = marked.different.chars().count() > MAX_CHARS[1];
    if !is_long || positions.len() < 2 {
        return marked.excerpt();
    }
    // The first differences to some texts are far apart. Show the text at each of them.
    let (mut different, mut shown_to) = (String::new(), start);
    for position in positions {
        let (window, _) = take_chars(&line[position..], WINDOW_CHARS);
        let (from, to) = (position.max(shown_to), position + window.len());
        if position > shown_to {
            different.push('\u{2026}');
        }
        if to > from {
            different.push_str(&line[from..to]);
            shown_to = to;
        }
    }
    if shown_to < line.len() {
        different.push('\u{2026}');
    }
    MarkedText { different, end: String::new(), ..marked }.excerpt_within(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_marked_between_common_ends() {
        let marked = |text: [&str; 3]| MarkedText {
            start: text[0].to_owned(),
            different: text[1].to_owned(),
            end: text[2].to_owned(),
        };
        assert_eq!(
            mark_differences(&["grep é1 file", "grep ü22 file"]),
            [marked(["grep ", "é1", " file"]), marked(["grep ", "ü22", " file"])]
        );
        assert_eq!(
            mark_differences(&["aa", "aaa"]),
            [marked(["aa", "", ""]), marked(["aa", "a", ""])]
        );
        assert_eq!(mark_differences(&["a", "b"]), [marked(["", "a", ""]), marked(["", "b", ""])]);
        assert!(mark_differences(&[]).is_empty());
    }

    #[test]
    fn excerpt_starts_shortly_before_the_difference() {
        let [one, other] =
            ["a", "b"].map(|sign| format!("{}\n{sign}{}", "x".repeat(99), "z".repeat(99)));
        let marked = mark_differences(&[&one, &other]);
        let excerpt = marked[0].excerpt();
        assert_eq!(excerpt.start, format!("\u{2026}{} ", "x".repeat(MAX_CHARS[0] - 1)));
        assert_eq!(excerpt.different, "a");
        assert_eq!(excerpt.end, format!("{}\u{2026}", "z".repeat(MAX_CHARS[2])));
        let short = mark_differences(&["same 1", "same 2"]);
        assert_eq!(short[0].excerpt(), short[0], "a short text is shown completely");
        let long = "y".repeat(MAX_CHARS[1] + 1);
        let long = mark_differences(&[&format!("{long}."), "."]);
        assert_eq!(long[0].excerpt().end, "\u{2026}");
    }

    fn plain(lines: &[MarkedText]) -> String {
        let text = |line: &MarkedText| format!("{}<{}>{}", line.start, line.different, line.end);
        lines.iter().map(text).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn excerpts_of_different_texts_always_differ() {
        // The first two texts differ from the third early, and from each other late.
        let base = |first: &str, last: &str| format!("{first}{}{last}", "x".repeat(500));
        let lines = |first: &str, last: &str| format!("{first}\n{}{last}", "same\n".repeat(50));
        let many = |last: &str| {
            let numbers: Vec<String> = (0..40).map(|at| format!("{at}\n")).collect();
            format!("{}{last}", numbers.concat())
        };
        for (what, texts) in [
            ("one line", [base("a", "1"), base("a", "2"), base("b", "1")]),
            ("lines", [lines("a", "1"), lines("a", "2"), lines("b", "1")]),
            ("many lines", [many("1"), many("2"), "other".to_owned()]),
            ("order of lines", ["a\nb".to_owned(), "b\na".to_owned(), "a\nb\na".to_owned()]),
            ("last line", ["a".to_owned(), "a\n".to_owned(), "a\n\n".to_owned()]),
            ("end", ["a".to_owned(), "a\nb".to_owned(), "a\nb\nc".to_owned()]),
        ] {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let shown: Vec<String> = excerpts(&texts).iter().map(|lines| plain(lines)).collect();
            assert!(
                shown[0] != shown[1] && shown[1] != shown[2] && shown[0] != shown[2],
                "{what}: {shown:?}"
            );
            assert!(shown.iter().all(|text| text.len() < 400), "{what}: {shown:?}");
        }
        assert_eq!(excerpts(&["a", "a"]), [vec![], vec![]] as [Vec<MarkedText>; 2]);
    }

    #[test]
    fn excerpt_shows_the_lines_that_differ() {
        let shown = excerpts(&["one\ntwo 1;\nthree\nfour", "one\ntwo 22;\nthree\nfive"]);
        assert_eq!(plain(&shown[0]), "two <1>;|\u{2026}<>|<four>");
        assert_eq!(plain(&shown[1]), "two <22>;|\u{2026}<>|<five>");
    }
}
