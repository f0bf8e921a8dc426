//! Splits text into lines. Only a line feed ends a line; a form feed is an ordinary character.

/// Lines without their line breaks. Empty text has no lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lines {
    pub(crate) lines: Vec<String>,
    /// Whether the last line ends in a line feed. `true` if there are no lines.
    pub(crate) ends_with_newline: bool,
    /// Whether each line feed comes after a carriage return. If so, the lines don't contain these
    /// carriage returns.
    pub(crate) has_crlf: bool,
}

impl Lines {
    pub(crate) fn from_text(text: &str) -> Self {
        let ends_with_newline = text.is_empty() || text.ends_with('\n');
        let whole = text.strip_suffix('\n').unwrap_or(text);
        let mut lines: Vec<String> = match text {
            "" => Vec::new(),
            _ => whole.split('\n').map(str::to_owned).collect(),
        };
        // Ignore a last line without a line break, because it does not show which line breaks the
        // file uses.
        let with_end = if ends_with_newline { lines.len() } else { lines.len() - 1 };
        // If a line ends in two carriage returns, keep all of them: a snippet could not distinguish
        // the second one from the line break.
        let doubled = |line: &&String| line.ends_with("\r\r");
        let has_crlf = with_end > 0
            && lines[..with_end].iter().all(|line| line.ends_with('\r') && !doubled(&line))
            && !lines[with_end..].iter().any(|line| line.ends_with('\r'));
        if has_crlf {
            for line in &mut lines[..with_end] {
                line.pop();
            }
        }
        Self { lines, ends_with_newline, has_crlf }
    }

    /// Returns the original text.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        for (index, line) in self.lines.iter().enumerate() {
            out.push_str(line);
            let last = index + 1 == self.lines.len();
            if !last || self.ends_with_newline {
                out.push_str(if self.has_crlf { "\r\n" } else { "\n" });
            }
        }
        out
    }

    /// Puts the carriage returns back into the lines.
    pub(crate) fn with_carriage_returns(mut self) -> Self {
        if std::mem::take(&mut self.has_crlf) {
            let with_end =
                if self.ends_with_newline { self.lines.len() } else { self.lines.len() - 1 };
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
    fn lines_round_trip_text() {
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
            assert_eq!(Lines::from_text(text).text(), text, "{text:?}");
            assert_eq!(Lines::from_text(text).with_carriage_returns().text(), text, "{text:?}");
        }
        assert!(Lines::from_text("a\r\nb").has_crlf);
        assert!(!Lines::from_text("a\r\nb\n").has_crlf);
    }
}
