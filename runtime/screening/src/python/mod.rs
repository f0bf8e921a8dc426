//! Python code, parsed like the interpreter does, but never run.

mod constant;
mod names;
mod shapes;
mod walker;

use std::collections::BTreeSet;

use ruff_python_ast::{ModModule, PySourceType, token::TokenKind};
use ruff_python_parser::{Mode, Parsed, lexer::lex, parse_unchecked_source};

use crate::{
    rules::{Limits, Rules},
    screen::{Hit, Screen},
};
use names::Names;
use walker::Walker;

pub(crate) struct Python {
    pub rules: &'static Rules,
}

impl Screen for Python {
    fn reads(&self, path: &str) -> bool {
        let table = self.rules.table;
        let ends = |suffixes: &[String]| suffixes.iter().any(|suffix| path.ends_with(suffix));
        // Compiled modules on Linux have names such as `_speed.cpython-312-x86_64-linux-gnu.so`.
        ends(&table.source_suffixes) || ends(&table.opaque_suffixes)
    }

    fn hits(&self, path: &str, bytes: &[u8], owned: &BTreeSet<String>) -> Vec<Hit> {
        let table = self.rules.table;
        let text = String::from_utf8_lossy(bytes);
        let is_opaque = table.opaque_suffixes.iter().any(|suffix| path.ends_with(suffix));
        if is_opaque {
            return self.unreadable("compiled code", path);
        }
        if bytes.len() > table.limits.file_bytes {
            return self.unreadable("too large", path);
        }
        if let Some(coding) = self.coding(&text) {
            return self.unreadable(&format!("encoding {coding}"), path);
        }
        if nests_too_deeply(&text, &table.limits) {
            return self.unreadable("nested too deeply", path);
        }
        let parsed = parse(&text);
        let mut walker = Walker::new(self.rules, &text, Names::new(self.rules, owned));
        walker.module(&parsed.syntax().body);
        let mut hits = walker.hits;
        if walker.too_deep {
            hits.extend(self.unreadable("nested too deeply", path));
        }
        hits
    }
}

impl Python {
    /// The encoding that a file declares, if the screen does not support it.
    fn coding(&self, text: &str) -> Option<String> {
        let mut lines = text.lines().take(2);
        let declared = lines.find_map(|line| self.rules.coding.captures(line))?;
        let name = declared.get(1)?.as_str().to_ascii_lowercase().replace('_', "-");
        (!self.rules.table.encodings.contains(&name)).then_some(name)
    }

    fn unreadable(&self, why: &str, path: &str) -> Vec<Hit> {
        let rules = self.rules.which(|rule| rule.unreadable);
        let hit = |rule| Hit {
            rule,
            line: 1,
            expression: format!("{why}: {path}"),
            snippet: why.to_owned(),
        };
        rules.into_iter().map(hit).collect()
    }
}

/// Parses as much as possible: what Python itself cannot parse does not run.
fn parse(text: &str) -> Parsed<ModModule> {
    parse_unchecked_source(text, PySourceType::Python)
}

/// Whether a recursive parser would overflow its stack. Python rejects such a file too.
fn nests_too_deeply(text: &str, limits: &Limits) -> bool {
    let mut lexer = lex(text, Mode::Module);
    let (mut brackets, mut tokens) = (0_usize, 0_usize);
    loop {
        tokens += 1;
        match lexer.next_token() {
            TokenKind::EndOfFile => return false,
            TokenKind::Lpar | TokenKind::Lsqb | TokenKind::Lbrace => brackets += 1,
            TokenKind::Rpar | TokenKind::Rsqb | TokenKind::Rbrace => {
                brackets = brackets.saturating_sub(1);
            }
            TokenKind::Newline | TokenKind::Comma => tokens = 0,
            _ => {}
        }
        if brackets > limits.brackets || tokens > limits.tokens {
            return true;
        }
    }
}
