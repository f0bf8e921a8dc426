//! A cursor over the lines of a patch.

/// Yields the lines without their newlines. The last line needs no newline: models often omit this
/// newline, and the meaning is clear.
pub(crate) struct Lines<'a> {
    text: &'a [u8],
    rest: &'a [u8],
    /// Number of the line that `peek` returns, counted from 1.
    pub number: usize,
    /// The first error in the text. Parsing continues, because some callers don't apply the patch.
    pub first_error: Option<String>,
    /// Repairs made where the text is incomplete.
    pub repairs: Vec<String>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { text, rest: text, number: 1, first_error: None, repairs: Vec::new() }
    }

    /// Returns the number of bytes before the line that `peek` returns.
    pub(crate) fn offset(&self) -> usize {
        self.text.len() - self.rest.len()
    }

    pub(crate) fn record_error(&mut self, message: String) {
        self.first_error.get_or_insert(message);
    }

    pub(crate) fn peek(&self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.iter().position(|byte| *byte == b'\n').unwrap_or(self.rest.len());
        Some(&self.rest[..end])
    }

    /// Returns the line after the one that `peek` returns.
    pub(crate) fn peek_second(&self) -> Option<&'a [u8]> {
        let mut next = Self::new(self.rest);
        next.advance();
        next.peek()
    }

    pub(crate) fn advance(&mut self) {
        if let Some(line) = self.peek() {
            let taken = (line.len() + 1).min(self.rest.len());
            self.rest = &self.rest[taken..];
            self.number += 1;
        }
    }

    pub(crate) fn next(&mut self) -> Option<&'a [u8]> {
        let line = self.peek()?;
        self.advance();
        Some(line)
    }
}

/// Removes carriage returns from the end of a header line. A patch that passed through two systems
/// may have several.
pub(crate) fn trim_carriage_returns(mut line: &[u8]) -> &[u8] {
    while let Some(rest) = line.strip_suffix(b"\r") {
        line = rest;
    }
    line
}
