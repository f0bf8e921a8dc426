//! Wraps lines for a terminal.

/// Lines longer than this many characters are wrapped. Shorter lines stay intact, because users may
/// search for them.
const WRAP_THRESHOLD: usize = 400;
/// The width of wrapped lines.
const WRAP_WIDTH: usize = 100;
/// Indentation of a wrapped line's continuation.
const INDENT: &str = "    ";

/// Wraps lines of more than 400 characters at spaces, to a width of 100. Such lines are common in
/// fault messages, which quote the output of an endpoint or a shell. No text is left out.
pub fn wrap_long_lines(text: &str) -> String {
    let lines = text.split('\n').map(|line| {
        if line.chars().count() > WRAP_THRESHOLD {
            break_line(line, WRAP_WIDTH)
        } else {
            line.to_owned()
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Wraps a line into a paragraph 80 columns wide.
pub(crate) fn wrap_paragraph(line: &str) -> String {
    break_line(line, crate::table::TERMINAL_WIDTH)
}

fn break_line(line: &str, width: usize) -> String {
    let rest = line.trim_start_matches(' ');
    let mut out = line[..line.len() - rest.len()].to_owned();
    let mut used = 0;
    for word in rest.split(' ').flat_map(|word| split_word(word, width)) {
        let size = word.chars().count();
        if used > 0 && used + 1 + size > width {
            out.push('\n');
            out.push_str(INDENT);
            used = INDENT.len();
        } else if used > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(&word);
        used += size;
    }
    out
}

/// Splits a word that is longer than a line into pieces.
fn split_word(word: &str, width: usize) -> Vec<String> {
    let room = width.saturating_sub(INDENT.len()).max(1);
    let characters: Vec<char> = word.chars().collect();
    if characters.len() <= room {
        return vec![word.to_owned()];
    }
    characters.chunks(room).map(|piece| piece.iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_lines_keep_all_text() {
        let short = "a line of a usual length\nand another";
        assert_eq!(wrap_long_lines(short), short);
        let long = format!("error: {}{}", "some words ".repeat(60), "x".repeat(250));
        let shown = wrap_long_lines(&long);
        assert!(shown.lines().all(|line| line.chars().count() <= WRAP_WIDTH), "{shown}");
        let bare = |text: &str| text.replace([' ', '\n'], "");
        assert_eq!(bare(&shown), bare(&long));
    }
}
