//! Extracts names from Python code without parsing it. The lines that a patch removes are not a
//! complete program, so they cannot be parsed.

use std::collections::BTreeSet;

const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

/// Returns identifiers of three bytes or more outside comments and strings.
pub(crate) fn extract_names<'a>(lines: impl IntoIterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    // The quotes of the open multi-line string, if any.
    let mut open: Option<&str> = None;
    for line in lines {
        let mut rest = line;
        loop {
            if let Some(quotes) = open {
                let Some(at) = rest.find(quotes) else { break };
                rest = &rest[at + quotes.len()..];
                open = None;
            }
            let Some(c) = rest.chars().next() else { break };
            if c == '#' {
                break;
            }
            if let Some(quotes) = ["\"\"\"", "'''"].into_iter().find(|q| rest.starts_with(q)) {
                open = Some(quotes);
                rest = &rest[3..];
            } else if c == '"' || c == '\'' {
                rest = skip_string(&rest[1..], c);
            } else if c.is_ascii_alphabetic() || c == '_' {
                let end = rest
                    .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                    .unwrap_or(rest.len());
                let (name, after) = rest.split_at(end);
                if name.len() >= 3 && !KEYWORDS.contains(&name) {
                    found.insert(name);
                }
                rest = after;
            } else {
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    found
}

/// Returns the text after a string. An unterminated string ends at the end of its line.
fn skip_string(text: &str, quote: char) -> &str {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return &text[at + 1..],
            _ => {}
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extract_names_ignores_strings_and_comments() {
        let code = [
            "def to_roman(number):",
            "    \"\"\"Writes",
            "    hidden words\"\"\"",
            "    for value in table:  # comment words",
            "        out += 'quoted \\' words' + sep",
        ];
        let found: Vec<_> = extract_names(code).into_iter().collect();
        assert_eq!(found, ["number", "out", "sep", "table", "to_roman", "value"]);
    }
}
