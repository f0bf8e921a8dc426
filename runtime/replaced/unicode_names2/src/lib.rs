//! Characters by their Unicode names, for `"\N{SNOWMAN}"` in Python: the one function of the crate
//! `unicode_names2` that ruff's parser calls, with the same answers.
//!
//! That crate finds a name at once, by tables of 0.83 MB. Few Python files have a name in them, so this one carries
//! the names packed, in a tenth of the bytes, and unpacks them where the first is asked for, in about 30 ms.
//! `pack.py` packs them, out of the tables of Unicode 16.0.

#![warn(missing_docs)]

use std::{collections::HashMap, sync::LazyLock};

/// As `pack.py` writes it.
static PACKED: &[u8] = include_bytes!("../names.lzma");

/// Where a name is the prefix and the character's number.
const IDEOGRAPH: &str = "CJK UNIFIED IDEOGRAPH-";
const IDEOGRAPHS: [(char, char); 10] = [
    ('\u{3400}', '\u{4DBF}'),
    ('\u{4E00}', '\u{9FFF}'),
    ('\u{20000}', '\u{2A6DF}'),
    ('\u{2A700}', '\u{2B739}'),
    ('\u{2B740}', '\u{2B81D}'),
    ('\u{2B820}', '\u{2CEA1}'),
    ('\u{2CEB0}', '\u{2EBE0}'),
    ('\u{2EBF0}', '\u{2EE5D}'),
    ('\u{30000}', '\u{3134A}'),
    ('\u{31350}', '\u{323AF}'),
];

/// Where a name is the prefix and three sounds.
const SYLLABLE: &str = "HANGUL SYLLABLE ";
const FIRST: [&str; 19] = [
    "G", "GG", "N", "D", "DD", "R", "M", "B", "BB", "S", "SS", "", "J", "JJ", "C", "K", "T", "P",
    "H",
];
const MIDDLE: [&str; 21] = [
    "A", "AE", "YA", "YAE", "EO", "E", "YEO", "YE", "O", "WA", "WAE", "OE", "YO", "U", "WEO", "WE",
    "WI", "YU", "EU", "YI", "I",
];
const LAST: [&str; 28] = [
    "", "G", "GG", "GS", "N", "NJ", "NH", "D", "L", "LG", "LM", "LB", "LS", "LT", "LP", "LH", "M",
    "B", "BS", "S", "SS", "NG", "J", "C", "K", "T", "P", "H",
];

/// The character of a name or an alias, in letters of any case.
///
/// ```
/// assert_eq!(unicode_names2::character("snowman"), Some('\u{2603}'));
/// assert_eq!(unicode_names2::character("no such thing"), None);
/// ```
pub fn character(name: &str) -> Option<char> {
    let name = name.to_ascii_uppercase();
    if let Some(sounds) = name.strip_prefix(SYLLABLE) {
        return syllable(sounds);
    }
    if let Some(number) = name.strip_prefix(IDEOGRAPH) {
        let digits = number.len() <= 5 && number.bytes().all(|byte| byte.is_ascii_hexdigit());
        let found = u32::from_str_radix(number, 16).ok().filter(|_| digits)?;
        let found = char::from_u32(found)?;
        return IDEOGRAPHS.iter().any(|(a, z)| (*a..=*z).contains(&found)).then_some(found);
    }
    static NAMES: LazyLock<HashMap<Box<str>, char>> = LazyLock::new(names);
    NAMES.get(&*name).copied()
}

/// The longest sound counts at each place, as no two syllables are written alike.
fn syllable(sounds: &str) -> Option<char> {
    let (first, rest) = longest(&FIRST, sounds)?;
    let (middle, rest) = longest(&MIDDLE, rest)?;
    let (last, rest) = longest(&LAST, rest)?;
    rest.is_empty().then(|| char::from_u32(0xAC00 + (first * 21 + middle) * 28 + last)).flatten()
}

fn longest<'a>(sounds: &[&str], text: &'a str) -> Option<(u32, &'a str)> {
    let fitting = (0..).zip(sounds).filter(|(_, sound)| text.starts_with(**sound));
    let (index, sound) = fitting.max_by_key(|(_, sound)| sound.len())?;
    Some((index, &text[sound.len()..]))
}

fn names() -> HashMap<Box<str>, char> {
    let mut text = Vec::new();
    #[expect(clippy::expect_used, reason = "a test reads every name")]
    lzma_rs::lzma_decompress(&mut &PACKED[..], &mut text).expect("the carried names unpack");
    let text = String::from_utf8_lossy(&text);
    let mut lines = text.lines();
    let mut names = HashMap::new();
    let mut put = |name: &str, code: u32| {
        if let Some(found) = char::from_u32(code) {
            names.entry(name.into()).or_insert(found);
        }
    };
    let (mut name, mut next) = (String::new(), 0);
    for line in lines.by_ref().take_while(|line| !line.is_empty()) {
        let digits = line.bytes().take_while(|byte| !byte.is_ascii_uppercase()).count();
        let (gap, line) = line.split_at(digits);
        let code = next + u32::from_str_radix(gap, 16).unwrap_or(0);
        let (shared, rest) = line.split_at(1);
        let shared = usize::from(shared.as_bytes()[0] - b'A');
        let end = name.match_indices(' ').map(|(at, _)| at + 1).nth(shared.wrapping_sub(1));
        match (shared, end) {
            (0, _) => name.clear(),
            (_, Some(end)) => name.truncate(end),
            // All words of the name before this one.
            (_, None) => name.push(' '),
        }
        name.push_str(rest);
        put(name.trim_end(), code);
        next = code + 1;
    }
    for line in lines {
        if let Some((code, name)) = line.split_once(' ') {
            put(name, u32::from_str_radix(code, 16).unwrap_or(u32::MAX));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_there_once() {
        let names = names();
        assert_eq!(names.len(), 40_490);
        assert!(names.keys().all(|name| !name.is_empty() && name.trim() == &**name));
    }

    #[test]
    fn names_aliases_and_names_by_rule_are_found() {
        for (name, wanted) in [
            ("SPACE", Some(' ')),
            ("latin small letter a", Some('a')),
            ("Latin Small Letter A With Ring Above", Some('å')),
            ("GREEK SMALL LETTER FINAL SIGMA", Some('ς')),
            ("NULL", Some('\0')),
            ("LF", Some('\n')),
            ("NO-BREAK SPACE", Some('\u{A0}')),
            ("BYTE ORDER MARK", Some('\u{FEFF}')),
            ("BELL", Some('\u{1F514}')),
            ("ALERT", Some('\u{7}')),
            ("CJK COMPATIBILITY IDEOGRAPH-F900", Some('\u{F900}')),
            ("VARIATION SELECTOR-256", Some('\u{E01EF}')),
            ("CJK UNIFIED IDEOGRAPH-4E00", Some('一')),
            ("CJK UNIFIED IDEOGRAPH-323af", Some('\u{323AF}')),
            ("CJK UNIFIED IDEOGRAPH-323B0", None),
            ("CJK UNIFIED IDEOGRAPH-+4E0", None),
            ("CJK UNIFIED IDEOGRAPH-", None),
            ("HANGUL SYLLABLE GA", Some('가')),
            ("hangul syllable hih", Some('\u{D7A3}')),
            ("HANGUL SYLLABLE GAA", None),
            ("HANGUL SYLLABLE ", None),
            ("SNOW", None),
            ("", None),
            ("naïve", None),
        ] {
            assert_eq!(character(name), wanted, "{name}");
        }
    }
}
