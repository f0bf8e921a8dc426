//! Parses a shell line into simple commands, to the extent that the rules require: quotes, lists,
//! pipes, substitutions, redirections and here-documents. Nothing is expanded.

use std::iter;

/// A simple command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SimpleCommand {
    pub words: Vec<String>,
    /// The command's source text, including redirections.
    pub source: String,
    /// Whether the command reads the preceding command's output.
    pub is_piped: bool,
    /// The file that the output is redirected to, if any.
    pub output: Option<String>,
    /// Whether the command ends in `&`.
    pub is_background: bool,
    /// The content of the command's here-documents.
    pub here_documents: String,
}

/// Returns the commands in a line. A command in a substitution comes after the command that
/// contains the substitution. The nesting depth is limited: the agent controls the line, and deeply
/// nested brackets must not overflow the stack. Invalid syntax is parsed as far as possible.
pub(crate) fn parse_simple_commands(line: &str, depth: usize) -> Vec<SimpleCommand> {
    let mut reader = ShellParser { chars: line.chars().collect(), ..ShellParser::default() };
    reader.parse();
    reader.end_command(0, false);
    let mut all = reader.commands;
    if depth > 0 {
        all.extend(
            reader.nested_lines.iter().flat_map(|inner| parse_simple_commands(inner, depth - 1)),
        );
    }
    all
}

#[derive(Default)]
struct ShellParser {
    chars: Vec<char>,
    at: usize,
    word: Option<String>,
    /// Index at which the current command starts.
    command_start: usize,
    /// Index at which a comment ends the current command.
    comment_start: Option<usize>,
    current: SimpleCommand,
    /// Whether the next word is an output file instead of an argument.
    expects_output_file: bool,
    /// Whether the next word is the delimiter of a here-document.
    expects_delimiter: bool,
    /// The delimiters of here-documents that start on the next line, each with the index of its
    /// command.
    pending_here_documents: Vec<(String, usize)>,
    commands: Vec<SimpleCommand>,
    nested_lines: Vec<String>,
}

impl ShellParser {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn parse(&mut self) {
        while let Some(c) = self.peek(0) {
            self.at += 1;
            match c {
                '\\' => {
                    match self.peek(0) {
                        Some('\n') | None => {}
                        Some(next) => self.push(next),
                    }
                    self.at += 1;
                }
                '\'' => {
                    self.word.get_or_insert_default();
                    while let Some(c) = self.peek(0) {
                        self.at += 1;
                        if c == '\'' {
                            break;
                        }
                        self.push(c);
                    }
                }
                '"' => self.read_quoted(),
                '$' if self.peek(0) == Some('(') => self.read_substitution('('),
                '`' => self.read_substitution('`'),
                '#' if self.word.is_none() => {
                    self.comment_start.get_or_insert(self.at - 1);
                    while self.peek(0).is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                '<' | '>' => self.read_redirection(c),
                '&' if self.peek(0) == Some('>') => {}
                '&' if self.peek(0) == Some('&') => {
                    self.at += 1;
                    self.end_command(2, false);
                }
                '&' => self.end_command(1, true),
                '\n' => {
                    self.end_command(1, false);
                    self.read_here_documents();
                }
                '|' if self.peek(0) == Some('|') => {
                    self.at += 1;
                    self.end_command(2, false);
                }
                '|' => {
                    self.end_command(1, false);
                    self.current.is_piped = true;
                }
                ';' | '(' | ')' => self.end_command(1, false),
                c if c.is_whitespace() => self.end_word(),
                c => self.push(c),
            }
        }
    }

    fn read_quoted(&mut self) {
        self.word.get_or_insert_default();
        while let Some(c) = self.peek(0) {
            self.at += 1;
            match c {
                '"' => break,
                '\\' if self
                    .peek(0)
                    .is_some_and(|c| matches!(c, '"' | '\\' | '$' | '`' | '\n')) =>
                {
                    let next = self.peek(0).filter(|c| *c != '\n');
                    self.at += 1;
                    if let Some(next) = next {
                        self.push(next);
                    }
                }
                '$' if self.peek(0) == Some('(') => self.read_substitution('('),
                '`' => self.read_substitution('`'),
                c => self.push(c),
            }
        }
    }

    /// Parses a substitution's content separately. The word keeps the substitution as written.
    fn read_substitution(&mut self, open: char) {
        let mut inner = String::new();
        if open == '(' {
            self.at += 1;
        }
        let mut depth = 1;
        while let Some(c) = self.peek(0) {
            self.at += 1;
            match (open, c) {
                ('(', '(') => depth += 1,
                ('(', ')') | ('`', '`') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            inner.push(c);
        }
        self.word.get_or_insert_default().push_str(&format!("$({inner})"));
        self.nested_lines.push(inner);
    }

    fn read_redirection(&mut self, c: char) {
        // Digits directly before a redirection are a file descriptor.
        if self.word.as_ref().is_some_and(|word| word.chars().all(|c| c.is_ascii_digit())) {
            self.word = None;
        }
        self.end_word();
        if self.peek(0) == Some('(') {
            self.read_substitution('(');
            return;
        }
        if c == '>' {
            while self.peek(0).is_some_and(|c| matches!(c, '>' | '&' | '|')) {
                self.at += 1;
            }
            self.expects_output_file = true;
        } else if self.peek(0) == Some('<') && self.peek(1) == Some('<') {
            self.at += 2;
        } else if self.peek(0) == Some('<') {
            self.at += 1;
            if self.peek(0) == Some('-') {
                self.at += 1;
            }
            self.expects_delimiter = true;
        }
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        if std::mem::take(&mut self.expects_output_file) {
            self.current.output = Some(word);
            return;
        }
        if std::mem::take(&mut self.expects_delimiter) {
            self.pending_here_documents.push((word, self.commands.len()));
        } else {
            self.current.words.push(word);
        }
    }

    /// Ends the current command. `separator` is the number of characters that were read beyond its
    /// end.
    fn end_command(&mut self, separator: usize, is_background: bool) {
        self.end_word();
        self.expects_output_file = false;
        let mut ended = std::mem::take(&mut self.current);
        let end = self.at.min(self.chars.len()).saturating_sub(separator);
        let end = self.comment_start.take().unwrap_or(end).max(self.command_start);
        let source: String = self.chars[self.command_start.min(end)..end].iter().collect();
        self.command_start = self.at.min(self.chars.len());
        if !ended.words.is_empty() {
            ended.source = source.trim().to_owned();
            ended.is_background = is_background;
            self.commands.push(ended);
        }
    }

    /// Reads the here-documents. The lines up to each delimiter belong to the command that declared
    /// the delimiter.
    fn read_here_documents(&mut self) {
        for (end, command) in std::mem::take(&mut self.pending_here_documents) {
            let mut text = String::new();
            while self.at < self.chars.len() {
                let rest = &self.chars[self.at..];
                let length = rest.iter().position(|c| *c == '\n').unwrap_or(rest.len());
                let line: String = rest[..length].iter().collect();
                self.at += (length + 1).min(rest.len());
                if line.trim_start_matches('\t') == end {
                    break;
                }
                text.extend(line.chars().chain(iter::once('\n')));
            }
            if let Some(command) = self.commands.get_mut(command) {
                command.here_documents.push_str(&text);
            }
        }
        self.command_start = self.at.min(self.chars.len());
    }
}
