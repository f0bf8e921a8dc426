//! Formats counts and lists for sentences.

use std::fmt;

/// Maximum number of names in a message. The others are counted.
const MAX_LISTED_ITEMS: usize = 3;

/// Formats a count with its noun: `1 task`, `2 tasks`, `0 tries`, `3 boxes`. All messages form
/// plurals with this function, so that none says "1 tasks". If `noun` has several words, the last
/// one is pluralized: `2 tool calls`.
pub fn count_with_noun<N: fmt::Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    if count == N::from(1) {
        format!("{count} {noun}")
    } else {
        format!("{count} {}", pluralize(noun))
    }
}

/// Returns only the noun, in the singular or plural form for the count.
pub fn noun_for_count<N: PartialEq + From<u8>>(count: N, noun: &str) -> String {
    if count == N::from(1) { noun.to_owned() } else { pluralize(noun) }
}

fn pluralize(noun: &str) -> String {
    let before_y = noun.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u']));
    if let Some(stem) = before_y {
        return format!("{stem}ies");
    }
    let takes_es = ["s", "x", "z", "ch", "sh"].iter().any(|end| noun.ends_with(end));
    format!("{noun}{}", if takes_es { "es" } else { "s" })
}

/// Joins the first items and counts the others: `a, b, c and 2 more`.
pub fn join_first_few(mut items: Vec<String>) -> String {
    let more = items.len().saturating_sub(MAX_LISTED_ITEMS);
    items.truncate(MAX_LISTED_ITEMS);
    let first = items.join(", ");
    match more {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plural_is_singular_only_for_one() {
        assert_eq!(count_with_noun(1_u64, "task"), "1 task");
        assert_eq!(count_with_noun(0_usize, "task"), "0 tasks");
        assert_eq!(count_with_noun(2_u32, "tool call"), "2 tool calls");
        assert_eq!(count_with_noun(2_i64, "try"), "2 tries");
        assert_eq!(count_with_noun(3_u64, "day"), "3 days");
        assert_eq!(count_with_noun(3_u64, "patch"), "3 patches");
        assert_eq!(noun_for_count(1_u64, "try"), "try");
    }
}
