//! Parses Python literals as data. Nothing is evaluated: names, calls and operators are rejected.

use serde_json::{Map, Number, Value};

/// Maximum nesting depth.
const MAX_DEPTH: usize = 64;

/// Parses a literal of lists, tuples, sets, dicts, strings, numbers, `True`, `False` and `None`.
pub(crate) fn parse_literal(text: &str) -> Result<Value, String> {
    let mut reader = LiteralParser { text, offset: 0 };
    let value = reader.parse_value(0)?;
    reader.skip_whitespace();
    match reader.peek() {
        None => Ok(value),
        Some(next) => {
            Err(format!("unexpected {next:?} at character {}, after the value", reader.offset))
        }
    }
}

struct LiteralParser<'a> {
    text: &'a str,
    offset: usize,
}

impl LiteralParser<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.offset..].chars().next()
    }

    fn next_char(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.offset += next.len_utf8();
        Some(next)
    }

    fn skip_whitespace(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.next_char();
        }
    }

    fn parse_value(&mut self, depth: usize) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err(format!("nested deeper than {MAX_DEPTH}"));
        }
        self.skip_whitespace();
        match self.peek() {
            Some('[') => self.parse_items(']', depth).map(Value::Array),
            Some('(') => self.parse_items(')', depth).map(Value::Array),
            Some('{') => self.parse_braces(depth),
            Some('\'' | '"') => self.parse_string(false).map(Value::String),
            Some(_) => self.parse_word(),
            None => Err("ends where a value was expected".into()),
        }
    }

    fn parse_items(&mut self, closing_bracket: char, depth: usize) -> Result<Vec<Value>, String> {
        self.next_char();
        let mut out = Vec::new();
        loop {
            self.skip_whitespace();
            if self.peek() == Some(closing_bracket) {
                self.next_char();
                return Ok(out);
            }
            out.push(self.parse_value(depth + 1)?);
            self.expect_comma(closing_bracket)?;
        }
    }

    /// Rejects two values without a comma in between. Python would concatenate two strings, but in
    /// a list of test ids a missing comma is always a typo.
    fn expect_comma(&mut self, closing_bracket: char) -> Result<(), String> {
        self.skip_whitespace();
        match self.peek() {
            Some(',') => {
                self.next_char();
                Ok(())
            }
            Some(next) if next == closing_bracket => Ok(()),
            Some(next) => Err(format!(
                "expected `,` or `{closing_bracket}` at character {}, found {next:?}",
                self.offset
            )),
            None => Err(format!("missing `{closing_bracket}` at the end")),
        }
    }

    fn parse_braces(&mut self, depth: usize) -> Result<Value, String> {
        self.next_char();
        let mut map = Map::new();
        let mut set = Vec::new();
        loop {
            self.skip_whitespace();
            if self.peek() == Some('}') {
                self.next_char();
                let is_set = !set.is_empty();
                return Ok(if is_set { Value::Array(set) } else { Value::Object(map) });
            }
            let key = self.parse_value(depth + 1)?;
            self.skip_whitespace();
            if self.peek() == Some(':') {
                self.next_char();
                let value = self.parse_value(depth + 1)?;
                let key = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
                map.insert(key, value);
            } else {
                set.push(key);
            }
            if !map.is_empty() && !set.is_empty() {
                return Err("mixes a set and a dict".into());
            }
            self.expect_comma('}')?;
        }
    }

    fn parse_word(&mut self) -> Result<Value, String> {
        let rest = &self.text[self.offset..];
        let length = rest
            .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '+' | '-')))
            .unwrap_or(rest.len());
        let word = &rest[..length];
        let quote = rest[length..].chars().next().filter(|next| matches!(next, '\'' | '"'));
        if let Some(prefix) = quote.and(Some(word.to_ascii_lowercase())) {
            if matches!(prefix.as_str(), "r" | "u") {
                self.offset += length;
                return self.parse_string(prefix == "r").map(Value::String);
            }
            return Err(format!("strings with the prefix `{word}` are not text"));
        }
        self.offset += length;
        match word {
            "True" => Ok(Value::Bool(true)),
            "False" => Ok(Value::Bool(false)),
            "None" => Ok(Value::Null),
            _ => {
                let number = word.replace('_', "");
                let whole = number.parse::<i64>().ok().map(Number::from);
                let number = whole.or_else(|| {
                    let is_number =
                        number.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
                    number.parse::<f64>().ok().filter(|_| is_number).and_then(Number::from_f64)
                });
                number.map(Value::Number).ok_or_else(|| match (word, self.peek()) {
                    ("", Some(next)) => {
                        format!("expected a value at character {}, found {next:?}", self.offset)
                    }
                    ("", None) => format!("expected a value at character {}", self.offset),
                    _ => format!("`{word}` is a name, not a literal value"),
                })
            }
        }
    }

    fn parse_string(&mut self, is_raw: bool) -> Result<String, String> {
        let begin = self.offset;
        let open = || format!("the string that starts at character {begin} is not closed");
        let quote = self.next_char().ok_or_else(open)?;
        let two: String = std::iter::repeat_n(quote, 2).collect();
        let triple = self.text[self.offset..].starts_with(&two).then(|| {
            self.offset += 2;
            format!("{two}{quote}")
        });
        let mut out = String::new();
        loop {
            if let Some(end) = &triple
                && self.text[self.offset..].starts_with(end.as_str())
            {
                self.offset += 3;
                return Ok(out);
            }
            match self.next_char().ok_or_else(open)? {
                next if next == quote && triple.is_none() => return Ok(out),
                '\\' if is_raw => {
                    out.push('\\');
                    out.push(self.next_char().ok_or_else(open)?);
                }
                '\\' => self.parse_escape(&mut out)?,
                '\n' if triple.is_none() => return Err(open()),
                next => out.push(next),
            }
        }
    }

    fn parse_escape(&mut self, out: &mut String) -> Result<(), String> {
        let next = self.next_char().ok_or("ends inside an escape")?;
        let plain = match next {
            '\n' => return Ok(()),
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'a' => '\x07',
            'b' => '\x08',
            'f' => '\x0c',
            'v' => '\x0b',
            '\\' | '\'' | '"' => next,
            'x' => self.parse_char_code(2, 16)?,
            'u' => self.parse_char_code(4, 16)?,
            'U' => self.parse_char_code(8, 16)?,
            '0'..='7' => {
                self.offset -= 1;
                let digits = self.text[self.offset..].chars().take(3);
                let count = digits.take_while(|digit| digit.is_digit(8)).count();
                self.parse_char_code(count, 8)?
            }
            'N' => return Err("named characters (`\\N{...}`) are not supported".into()),
            // As in Python, an unknown escape sequence is left unchanged.
            other => {
                out.push('\\');
                other
            }
        };
        out.push(plain);
        Ok(())
    }

    fn parse_char_code(&mut self, digits: usize, radix: u32) -> Result<char, String> {
        let text =
            self.text.get(self.offset..self.offset + digits).ok_or("ends inside an escape")?;
        let code = u32::from_str_radix(text, radix).ok().and_then(char::from_u32);
        self.offset += digits;
        code.ok_or_else(|| format!("\\{text} is not a character"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parse_literal_follows_python_syntax() {
        for (text, value) in [
            ("['a', \"b'c\", 'd\\'e']", json!(["a", "b'c", "d'e"])),
            ("('x',)", json!(["x"])),
            ("{'a': 1, 'b': [True, None, -2.5e3]}", json!({"a": 1, "b": [true, null, -2500.0]})),
            ("{'s', 't'}", json!(["s", "t"])),
            ("['\\x41\\u00e9\\101\\n\\q']", json!(["AéA\n\\q"])),
            ("[r'a\\d', u'é', '']", json!(["a\\d", "é", ""])),
            ("['''a\n'b''']", json!(["a\n'b"])),
            ("[\n 'a',\n]", json!(["a"])),
            ("[]", json!([])),
        ] {
            assert_eq!(parse_literal(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn parse_literal_rejects_code_and_syntax_errors() {
        for (text, said) in [
            ("__import__('os').system('x')", "is a name"),
            ("['a' 'b']", "expected `,`"),
            ("['a'", "missing `]` at the end"),
            ("['a", "is not closed"),
            ("[1] + [2]", "after the value"),
            ("[b'a']", "not text"),
            ("[x for x in y]", "is a name"),
            ("[f'{x}']", "not text"),
            ("", "ends where"),
            ("{'a': 1, 'b'}", "mixes"),
        ] {
            let error = parse_literal(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
        assert!(parse_literal(&"[".repeat(100_000)).is_err());
    }
}
