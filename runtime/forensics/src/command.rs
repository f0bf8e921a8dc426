//! Simple commands in the normalized form that the rules expect.

use std::collections::BTreeMap;

use crate::{
    rules::{RuleFile, Shell},
    shell::{SimpleCommand, parse_simple_commands},
};

/// Maximum number of preceding commands to search in a pipeline. The search is limited because the
/// agent controls the line's length.
const MAX_PIPE_COMMANDS: usize = 16;

/// The words in each file that earlier commands wrote, by the file's path.
pub(crate) type WrittenFiles = BTreeMap<String, String>;

/// A command in the form against which rules are matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Command {
    /// The words without wrappers. The program's path is reduced to its base name.
    pub words: Vec<String>,
    /// The words joined on one line, first as written, then without wrappers.
    pub forms: [String; 2],
    /// The command for display: as written, on one line, with its input, and without preceding
    /// shell keywords.
    pub display_text: String,
    /// The file to which the command writes, and the words written to it, if the line shows them.
    pub written_file: Option<(String, String)>,
    /// Whether the command reads further arguments from an input that the shell line does not show
    /// in full.
    pub takes_unknown_arguments: bool,
    pub is_background: bool,
}

/// Returns the commands in a shell line, including commands that are passed to nested shells.
pub(crate) fn commands(line: &str, file: &RuleFile) -> Vec<Command> {
    let mut all = Vec::new();
    parse_nested(line, file, file.limits.depth, &mut all);
    all
}

fn parse_nested(line: &str, file: &RuleFile, depth: usize, parsed_commands: &mut Vec<Command>) {
    let shell = &file.shell;
    let simples = parse_simple_commands(line, depth);
    for (at, simple) in simples.iter().enumerate() {
        let mut plain = strip_wrappers(simple.words.clone(), shell);
        let program = plain.first().cloned().unwrap_or_default();
        let mut shown = strip_keywords(&simple.source, shell);
        // Go back along the pipeline to its first command, or to the nearest command whose input is
        // known.
        let from = (at.saturating_sub(MAX_PIPE_COMMANDS)..=at)
            .rev()
            .find(|&at| !simples[at].is_piped || !simples[at].here_documents.is_empty());
        let given = from.map_or("", |at| simples[at].here_documents.as_str());
        let mut inner = None;
        if shell.shells.contains(&program) {
            let flag = |word: &String| {
                word.strip_prefix('-')
                    .is_some_and(|rest| !rest.starts_with('-') && rest.contains('c'))
            };
            inner = plain.iter().position(flag).and_then(|at| plain.get(at + 1)).cloned();
            inner = inner.or_else(|| (!given.is_empty()).then(|| given.to_owned()));
        } else if program == "eval" {
            inner = Some(plain[1..].join(" "));
        } else if !given.is_empty() {
            let name = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
            if shell.interpreters.iter().any(|interpreter| interpreter == name) {
                shown = format!("{shown} {given}");
                plain.push(given.to_owned());
            }
        }
        let bases = simple.words.iter().map(|word| word.rsplit('/').next().unwrap_or(word));
        let takes_unknown_arguments =
            bases.into_iter().any(|word| shell.spreaders.iter().any(|s| s == word));
        if takes_unknown_arguments && let Some(from) = from {
            plain.extend(printed_words(&simples[from], shell));
            let pipe = simples[from..at].iter().map(|before| strip_keywords(&before.source, shell));
            shown = pipe.chain([shown.clone()]).collect::<Vec<_>>().join(" | ");
        }
        let writes =
            simple.output.clone().map(|path| (path, printed_words(simple, shell).join(" ")));
        let forms =
            [join_on_one_line(&strip_program_path(simple.words.clone())), join_on_one_line(&plain)];
        let shown = join_on_one_line(&[shown]);
        let background = simple.is_background;
        parsed_commands.push(Command {
            words: plain,
            forms,
            display_text: shown,
            written_file: writes,
            takes_unknown_arguments,
            is_background: background,
        });
        if let Some(inner) = inner.filter(|_| depth > 0) {
            parse_nested(&inner, file, depth - 1, parsed_commands);
        }
    }
}

/// Returns the words that a command prints, if they are part of the line.
fn printed_words(simple: &SimpleCommand, shell: &Shell) -> Vec<String> {
    let words = strip_wrappers(simple.words.clone(), shell);
    let is_printer = words.first().is_some_and(|program| shell.printers.contains(program));
    let printed = if is_printer { words[1..].join(" ").replace("\\n", " ") } else { String::new() };
    let all = printed.split_whitespace().chain(simple.here_documents.split_whitespace());
    all.map(str::to_owned).collect()
}

/// Returns a command's text without preceding shell keywords. For example, `then git log` becomes
/// `git log`.
fn strip_keywords(source: &str, shell: &Shell) -> String {
    let mut text = source.trim_start();
    while let Some((first, rest)) = text.split_once(char::is_whitespace)
        && shell.keywords.iter().any(|keyword| keyword == first)
    {
        text = rest.trim_start();
    }
    // Join continuation lines.
    text.replace("\\\n", " ")
}

fn join_on_one_line(words: &[String]) -> String {
    words.iter().flat_map(|word| word.split_whitespace()).collect::<Vec<_>>().join(" ")
}

/// Replaces the program with its base name.
fn strip_program_path(mut words: Vec<String>) -> Vec<String> {
    if let Some(first) = words.first_mut()
        && let Some((_, name)) = first.rsplit_once('/')
    {
        *first = name.to_owned();
    }
    words
}

/// Removes wrappers that do not affect what the command does.
fn strip_wrappers(words: Vec<String>, shell: &Shell) -> Vec<String> {
    let mut words = words;
    loop {
        let assignments = words.iter().take_while(|word| is_assignment(word)).count();
        words = strip_program_path(words.split_off(assignments));
        let wrapper = shell.wrappers.iter().chain(&shell.keywords).find_map(|wrapper| {
            let parts: Vec<_> = wrapper.split(' ').collect();
            let same = words.len() > parts.len() && words.iter().zip(&parts).all(|(a, b)| a == b);
            same.then_some(parts.len())
        });
        let Some(length) = wrapper else { break };
        words = words.split_off(length);
        let about = |word: &&String| {
            word.starts_with('-')
                || is_assignment(word)
                || word.starts_with(|c: char| c.is_ascii_digit())
        };
        let more = words.iter().take_while(about).count();
        words = words.split_off(more);
    }
    let program = words.first().cloned().unwrap_or_default();
    if program.starts_with("python") {
        let module = words[1..]
            .iter()
            .take_while(|word| word.starts_with('-'))
            .position(|word| word == "-m");
        if let Some(at) = module
            && words.len() > at + 2
        {
            return words.split_off(at + 2);
        }
    }
    if program == "git" {
        while words.get(1).is_some_and(|word| word.starts_with('-')) && words.len() > 2 {
            let option = words.remove(1);
            if shell.git_value_options.contains(&option) && words.len() > 2 {
                words.remove(1);
            }
        }
    }
    words
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}
