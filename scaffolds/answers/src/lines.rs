//! Splits a text into lines. Only a line feed ends a line: a form feed in a file is an ordinary
//! character.

/// Lines without line breaks, and whether the last one has one. An empty text has no lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lines {
    pub(crate) lines: Vec<String>,
    /// The last line ends in a line feed. True if there are no lines.
    pub(crate) ended: bool,
    /// A carriage return precedes every line feed and is removed from the lines.
    pub(crate) crlf: bool,
}

impl Lines {
    pub(crate) fn of(text: &str) -> Self {
        let ended = text.is_empty() || text.ends_with('\n');
        let whole = text.strip_suffix('\n').unwrap_or(text);
        let mut lines: Vec<String> = match text {
            "" => Vec::new(),
            _ => whole.split('\n').map(str::to_owned).collect(),
        };
        // A last line without a line break does not show which one it would have.
        let with_end = if ended { lines.len() } else { lines.len() - 1 };
        // An additional one at the end of a line would be a character that no snippet could
        // distinguish.
        let doubled = |line: &&String| line.ends_with("\r\r");
        let crlf = with_end > 0
            && lines[..with_end].iter().all(|line| line.ends_with('\r') && !doubled(&line))
            && !lines[with_end..].iter().any(|line| line.ends_with('\r'));
        if crlf {
            for line in &mut lines[..with_end] {
                line.pop();
            }
        }
        Self { lines, ended, crlf }
    }

    /// The original text.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        for (index, line) in self.lines.iter().enumerate() {
            out.push_str(line);
            let last = index + 1 == self.lines.len();
            if !last || self.ended {
                out.push_str(if self.crlf { "\r\n" } else { "\n" });
            }
        }
        out
    }

    /// With carriage returns as characters of the lines.
    pub(crate) fn literal(mut self) -> Self {
        if std::mem::take(&mut self.crlf) {
            let with_end = if self.ended { self.lines.len() } else { self.lines.len() - 1 };
            for line in &mut self.lines[..with_end] {
                line.push('\r');
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_comes_back_as_it_was() {
        for text in [
            "",
            "\n",
            "a",
            "a\n",
            "a\nb",
            "\n\n",
            "a\r\nb\r\n",
            "a\r\nb",
            "a\r\nb\n",
            "a\x0cb\n",
            "\r\n",
            "a\r",
        ] {
            assert_eq!(Lines::of(text).text(), text, "{text:?}");
            assert_eq!(Lines::of(text).literal().text(), text, "{text:?}");
        }
        assert!(Lines::of("a\r\nb").crlf);
        assert!(!Lines::of("a\r\nb\n").crlf);
    }
}
