//! The parser of Python code, and the check that its input is safe to parse.

use ruff_python_ast::{ModModule, PySourceType, token::TokenKind};
use ruff_python_parser::{Mode, Parsed, lexer::lex, parse_unchecked_source};

use crate::rules::Limits;

/// Parses code and tolerates syntax errors: code that Python cannot parse does not run.
pub(super) fn parse(text: &str) -> Parsed<ModModule> {
    parse_unchecked_source(text, PySourceType::Python)
}

/// Whether code is nested so deeply that a recursive parser would overflow its stack. Python also
/// rejects such code.
pub(super) fn nests_too_deeply(text: &str, limits: &Limits) -> bool {
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
