//! A cursor over the lines of a patch.

/// Lines come without their newline. A patch whose last line lacks one is read as if it had it:
/// models often omit it, and nothing else could be meant.
pub(crate) struct Lines<'a> {
    all: &'a [u8],
    rest: &'a [u8],
    /// The number of the line that `peek` returns, counted from 1.
    pub number: usize,
    /// The first error in the text. Reading continues because not every reader of a patch applies
    /// it.
    pub wrong: Option<String>,
    /// What was read although the text is incomplete there.
    pub repairs: Vec<String>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { all: text, rest: text, number: 1, wrong: None, repairs: Vec::new() }
    }

    /// Number of bytes before the line that `peek` returns.
    pub(crate) fn offset(&self) -> usize {
        self.all.len() - self.rest.len()
    }

    pub(crate) fn note(&mut self, why: String) {
        self.wrong.get_or_insert(why);
    }

    pub(crate) fn peek(&self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.iter().position(|byte| *byte == b'\n').unwrap_or(self.rest.len());
        Some(&self.rest[..end])
    }

    /// The line after the one that `peek` returns.
    pub(crate) fn second(&self) -> Option<&'a [u8]> {
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

/// A header line may end in carriage returns if the patch was written on another system, or passed
/// through two.
pub(crate) fn bare(mut line: &[u8]) -> &[u8] {
    while let Some(rest) = line.strip_suffix(b"\r") {
        line = rest;
    }
    line
}
