//! Splits a test file into tokens and matches brackets, as far as finding assertions requires.

/// A language that supports report canaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    /// Includes TypeScript and JSX.
    JavaScript,
    Rust,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    Word,
    Number,
    /// A string without substitutions.
    Text,
    /// A character literal of Rust.
    Char,
    /// A regular expression, a string with substitutions or a lifetime.
    Other,
    /// `=>`.
    Arrow,
    Sign(u8),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    pub kind: TokenKind,
    pub start: usize,
    pub end: usize,
    /// Whether the token is the first one on its line.
    pub is_first: bool,
}

/// Marks a token without a matching or enclosing bracket.
const NO_BRACKET: usize = usize::MAX;

/// JavaScript words after which `/` begins a regular expression.
const REGEX_PREFIX_KEYWORDS: [&str; 15] = [
    "await",
    "case",
    "delete",
    "do",
    "else",
    "in",
    "instanceof",
    "new",
    "of",
    "return",
    "throw",
    "typeof",
    "void",
    "yield",
    "default",
];

pub(super) struct Source<'a> {
    pub text: &'a str,
    pub tokens: Vec<Token>,
    /// For each bracket, the index of its counterpart.
    matching_brackets: Vec<usize>,
    /// For each token, the index of the innermost bracket that is open before it.
    enclosing_brackets: Vec<usize>,
}

impl<'a> Source<'a> {
    /// Returns `None` if the text cannot be parsed: a string does not end, or brackets do not
    /// match.
    pub(super) fn parse(text: &'a str, language: Language) -> Option<Self> {
        let tokens = Lexer { text, offset: 0, language, tokens: Vec::new() }.tokenize()?;
        let (mut pairs, mut parents) =
            (vec![NO_BRACKET; tokens.len()], vec![NO_BRACKET; tokens.len()]);
        let mut open: Vec<usize> = Vec::new();
        for (at, token) in tokens.iter().enumerate() {
            if let TokenKind::Sign(sign @ (b')' | b']' | b'}')) = token.kind {
                let begin = open.pop()?;
                let fits = matches!(
                    (tokens[begin].kind, sign),
                    (TokenKind::Sign(b'('), b')')
                        | (TokenKind::Sign(b'['), b']')
                        | (TokenKind::Sign(b'{'), b'}')
                );
                if !fits {
                    return None;
                }
                (pairs[begin], pairs[at]) = (at, begin);
            }
            parents[at] = open.last().copied().unwrap_or(NO_BRACKET);
            if matches!(token.kind, TokenKind::Sign(b'(' | b'[' | b'{')) {
                open.push(at);
            }
        }
        open.is_empty().then_some(Self {
            text,
            tokens,
            matching_brackets: pairs,
            enclosing_brackets: parents,
        })
    }

    pub(super) fn token_text(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| &self.text[token.start..token.end])
    }

    pub(super) fn kind(&self, at: usize) -> Option<TokenKind> {
        self.tokens.get(at).map(|token| token.kind)
    }

    /// The text of a word; empty for other tokens.
    pub(super) fn word(&self, at: usize) -> &'a str {
        if self.kind(at) == Some(TokenKind::Word) { self.token_text(at) } else { "" }
    }

    pub(super) fn is_sign(&self, at: usize, sign: u8) -> bool {
        self.kind(at) == Some(TokenKind::Sign(sign))
    }

    /// Returns the counterpart of a bracket.
    pub(super) fn matching_bracket(&self, at: usize) -> Option<usize> {
        self.matching_brackets.get(at).copied().filter(|pair| *pair != NO_BRACKET)
    }

    /// Returns the innermost bracket around a token.
    pub(super) fn enclosing_bracket(&self, at: usize) -> Option<usize> {
        self.enclosing_brackets.get(at).copied().filter(|parent| *parent != NO_BRACKET)
    }

    /// Returns the tokens directly inside a bracket. For nested brackets, only the opening bracket.
    pub(super) fn child_tokens(&self, open_bracket: usize) -> Vec<usize> {
        let Some(close) = self.matching_bracket(open_bracket) else { return Vec::new() };
        let mut found = Vec::new();
        let mut at = open_bracket + 1;
        while at < close {
            found.push(at);
            at = self.matching_bracket(at).filter(|pair| *pair > at).unwrap_or(at) + 1;
        }
        found
    }

    /// Returns the first and the last token of each argument in a bracket.
    pub(super) fn arguments(&self, open_bracket: usize) -> Vec<(usize, usize)> {
        let Some(close) = self.matching_bracket(open_bracket) else { return Vec::new() };
        let mut found = Vec::new();
        let mut first = open_bracket + 1;
        let commas =
            self.child_tokens(open_bracket).into_iter().filter(|at| self.is_sign(*at, b','));
        for end in commas.chain([close]) {
            if end > first {
                found.push((first, end - 1));
            }
            first = end + 1;
        }
        found
    }

    /// Returns the byte range from a first to a last token.
    pub(super) fn byte_range(&self, (first, last): (usize, usize)) -> (usize, usize) {
        (self.tokens[first].start, self.tokens[last].end)
    }
}

struct Lexer<'a> {
    text: &'a str,
    offset: usize,
    language: Language,
    tokens: Vec<Token>,
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
}

impl Lexer<'_> {
    fn tokenize(mut self) -> Option<Vec<Token>> {
        if self.text.starts_with('\u{feff}') {
            self.offset = '\u{feff}'.len_utf8();
        }
        let rest = &self.text[self.offset..];
        if rest.starts_with("#!") && !rest.starts_with("#![") {
            self.offset += rest.find('\n').unwrap_or(rest.len());
        }
        let mut is_first = true;
        while let Some(byte) = self.peek(0) {
            if byte.is_ascii_whitespace() {
                is_first |= byte == b'\n';
                self.offset += 1;
            } else if byte == b'/' && self.peek(1) == Some(b'/') {
                let rest = &self.text[self.offset..];
                self.offset += rest.find('\n').unwrap_or(rest.len());
            } else if byte == b'/' && self.peek(1) == Some(b'*') {
                is_first |= self.skip_comment()?;
            } else {
                let start = self.offset;
                let kind = match self.language {
                    Language::JavaScript => self.read_javascript_token(byte)?,
                    Language::Rust => self.read_rust_token(byte)?,
                };
                let end = self.offset;
                // Reject tokens that end inside a multibyte character.
                self.text.get(start..end)?;
                self.tokens.push(Token {
                    kind,
                    start,
                    end,
                    is_first: std::mem::take(&mut is_first),
                });
            }
        }
        Some(self.tokens)
    }

    fn peek(&self, distance: usize) -> Option<u8> {
        self.text.as_bytes().get(self.offset + distance).copied()
    }

    /// Skips a comment. Returns whether it spans several lines; `None` if it does not end.
    fn skip_comment(&mut self) -> Option<bool> {
        let (mut depth, mut has_lines) = (0, false);
        loop {
            match (self.peek(0)?, self.peek(1)) {
                (b'*', Some(b'/')) => {
                    depth -= 1;
                    self.offset += 2;
                }
                (b'/', Some(b'*')) if depth == 0 || self.language == Language::Rust => {
                    depth += 1;
                    self.offset += 2;
                }
                (byte, _) => {
                    has_lines |= byte == b'\n';
                    self.offset += 1;
                }
            }
            if depth == 0 {
                return Some(has_lines);
            }
        }
    }

    fn read_javascript_token(&mut self, byte: u8) -> Option<TokenKind> {
        match byte {
            b'"' | b'\'' => self.read_string(byte),
            b'`' => self.read_template(),
            b'/' if self.begins_regex() => self.read_regex(),
            _ => self.read_common_token(byte),
        }
    }

    fn read_rust_token(&mut self, byte: u8) -> Option<TokenKind> {
        if byte == b'\'' {
            return self.read_character();
        }
        let rest = &self.text[self.offset..];
        let prefix = rest.bytes().take_while(|byte| matches!(byte, b'b' | b'c' | b'r')).count();
        let hashes = rest.bytes().skip(prefix).take_while(|byte| *byte == b'#').count();
        let is_raw = rest[..prefix].ends_with('r');
        match rest.as_bytes().get(prefix + hashes) {
            Some(b'"') if prefix <= 2 && is_raw => {
                let inner = prefix + hashes + 1;
                let end = format!("\"{}", "#".repeat(hashes));
                self.offset += inner + rest[inner..].find(&end)? + end.len();
                Some(TokenKind::Text)
            }
            Some(b'"') if prefix <= 1 && hashes == 0 => {
                self.offset += prefix;
                self.read_string(b'"')
            }
            Some(b'\'') if hashes == 0 && &rest[..prefix] == "b" => {
                self.offset += prefix;
                self.read_character()
            }
            _ => self.read_common_token(byte),
        }
    }

    fn read_common_token(&mut self, byte: u8) -> Option<TokenKind> {
        match byte {
            b'=' if self.peek(1) == Some(b'>') => {
                self.offset += 2;
                Some(TokenKind::Arrow)
            }
            b'0'..=b'9' => Some(self.read_number()),
            byte if is_word_byte(byte) => {
                while self.peek(0).is_some_and(is_word_byte) {
                    self.offset += 1;
                }
                Some(TokenKind::Word)
            }
            byte => {
                self.offset += 1;
                Some(TokenKind::Sign(byte))
            }
        }
    }

    fn read_number(&mut self) -> TokenKind {
        let start = self.offset;
        loop {
            let text = &self.text[start..self.offset];
            let is_decimal = !text.starts_with("0x") && !text.starts_with("0X");
            let next_is_digit = self.peek(1).is_some_and(|byte| byte.is_ascii_digit());
            match self.peek(0) {
                Some(byte) if byte.is_ascii_alphanumeric() || byte == b'_' => self.offset += 1,
                Some(b'.') if next_is_digit && !text.contains('.') => self.offset += 1,
                Some(b'+' | b'-') if next_is_digit && is_decimal && text.ends_with(['e', 'E']) => {
                    self.offset += 1;
                }
                _ => return TokenKind::Number,
            }
        }
    }

    /// Reads a quoted string. In JavaScript it cannot span lines.
    fn read_string(&mut self, quote: u8) -> Option<TokenKind> {
        self.offset += 1;
        loop {
            match self.peek(0)? {
                b'\\' => self.offset += 2,
                b'\n' if self.language == Language::JavaScript => return None,
                byte => {
                    self.offset += 1;
                    if byte == quote {
                        return Some(TokenKind::Text);
                    }
                }
            }
        }
    }

    fn read_template(&mut self) -> Option<TokenKind> {
        let mut kind = TokenKind::Text;
        self.offset += 1;
        loop {
            match (self.peek(0)?, self.peek(1)) {
                (b'\\', _) => self.offset += 2,
                (b'`', _) => {
                    self.offset += 1;
                    return Some(kind);
                }
                (b'$', Some(b'{')) => {
                    kind = TokenKind::Other;
                    self.offset += 2;
                    self.skip_substitution()?;
                }
                _ => self.offset += 1,
            }
        }
    }

    /// Reads the rest of a `${...}` substitution.
    fn skip_substitution(&mut self) -> Option<()> {
        let mut depth = 1;
        while depth > 0 {
            match self.peek(0)? {
                quote @ (b'"' | b'\'') => {
                    self.read_string(quote)?;
                }
                b'`' => {
                    self.read_template()?;
                }
                byte => {
                    depth += usize::from(byte == b'{');
                    depth -= usize::from(byte == b'}');
                    self.offset += 1;
                }
            }
        }
        Some(())
    }

    fn begins_regex(&self) -> bool {
        let Some(last) = self.tokens.last() else { return true };
        match last.kind {
            TokenKind::Word => REGEX_PREFIX_KEYWORDS.contains(&&self.text[last.start..last.end]),
            TokenKind::Number | TokenKind::Text | TokenKind::Char | TokenKind::Other => false,
            TokenKind::Sign(b')' | b']') => false,
            // Before `>`, the slash ends a JSX element, as in `{x} />` or `</a>`.
            TokenKind::Sign(b'}') => self.peek(1) != Some(b'>'),
            TokenKind::Sign(b'<') => last.end != self.offset,
            TokenKind::Sign(_) | TokenKind::Arrow => true,
        }
    }

    fn read_regex(&mut self) -> Option<TokenKind> {
        let mut in_class = false;
        self.offset += 1;
        loop {
            match self.peek(0)? {
                b'\n' => return None,
                b'\\' => self.offset += 1,
                b'[' => in_class = true,
                b']' => in_class = false,
                b'/' if !in_class => break,
                _ => {}
            }
            self.offset += 1;
        }
        self.offset += 1;
        while self.peek(0).is_some_and(|byte| byte.is_ascii_alphabetic()) {
            self.offset += 1;
        }
        Some(TokenKind::Other)
    }

    /// Reads a character literal or a lifetime of Rust.
    fn read_character(&mut self) -> Option<TokenKind> {
        let rest = &self.text[self.offset + 1..];
        let first = rest.chars().next()?;
        if first == '\\' {
            // The escaped character may itself be a quote.
            let escaped = 1 + rest[1..].chars().next()?.len_utf8();
            self.offset += 1 + escaped + rest[escaped..].find('\'')? + 1;
            return Some(TokenKind::Char);
        }
        if rest[first.len_utf8()..].starts_with('\'') {
            self.offset += 1 + first.len_utf8() + 1;
            return Some(TokenKind::Char);
        }
        self.offset += 1;
        while self.peek(0).is_some_and(is_word_byte) {
            self.offset += 1;
        }
        Some(TokenKind::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str, language: Language) -> Vec<&str> {
        let source = Source::parse(text, language).unwrap();
        (0..source.tokens.len()).map(|at| source.token_text(at)).collect()
    }

    #[test]
    fn lexer_reads_javascript_strings_and_regexes_as_single_tokens() {
        let text = "x = a / b; // it's\ny = /[/']\\//g.test(`a ${f({b: '}'}) + `${c}`} d`)";
        let found = ["x", "=", "a", "/", "b", ";", "y", "=", "/[/']\\//g", ".", "test", "("];
        let all = tokens(text, Language::JavaScript);
        assert_eq!(all[..found.len()], found);
        assert_eq!(all[found.len()..], ["`a ${f({b: '}'}) + `${c}`} d`", ")"]);
        assert_eq!(
            tokens("<A b={1} /></A>", Language::JavaScript).concat(),
            "<Ab={1}/></A>",
            "the slashes of JSX do not begin a regular expression"
        );
        assert_eq!(tokens("1e-9 .5 0xfe-1 1..2", Language::JavaScript)[0], "1e-9");
    }

    #[test]
    fn lexer_distinguishes_rust_strings_characters_and_lifetimes() {
        let text = "/* a /* b */ */ r#\"x\"y\"# b\"\\\"\" 'a' '\\'' &'a str b'x' r#type 1..2";
        assert_eq!(
            tokens(text, Language::Rust),
            [
                "r#\"x\"y\"#",
                "b\"\\\"\"",
                "'a'",
                "'\\''",
                "&",
                "'a",
                "str",
                "b'x'",
                "r",
                "#",
                "type",
                "1",
                ".",
                ".",
                "2"
            ]
        );
    }

    #[test]
    fn source_rejects_text_that_cannot_be_parsed() {
        for text in ["<p>Don't</p>\n", "f(1", "f(1]", "`${a", "/* a"] {
            assert!(Source::parse(text, Language::JavaScript).is_none(), "{text}");
        }
        assert!(Source::parse("let a = \"b", Language::Rust).is_none());
    }

    #[test]
    fn arguments_splits_only_at_top_level_commas() {
        let source = Source::parse("f(a, [1, 2], {b: (c, d)},)", Language::JavaScript).unwrap();
        let parts: Vec<&str> = source
            .arguments(1)
            .into_iter()
            .map(|argument| {
                let (start, end) = source.byte_range(argument);
                &source.text[start..end]
            })
            .collect();
        assert_eq!(parts, ["a", "[1, 2]", "{b: (c, d)}"]);
    }
}
