//! Simple commands in the one form that the rules are written for.

use super::{
    rules::{RuleFile, Shell},
    shell::{Simple, split},
};

/// A command as the rules see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Command {
    /// Without wrappers, the program by its bare name.
    pub words: Vec<String>,
    /// The words in one line: as they are written, and without wrappers.
    pub forms: [String; 2],
    pub background: bool,
}

/// The commands of a shell line, with those that shells within it are given.
pub(crate) fn commands(line: &str, file: &RuleFile) -> Vec<Command> {
    let mut all = Vec::new();
    read(line, file, file.limits.depth, &mut all);
    all
}

fn read(line: &str, file: &RuleFile, depth: usize, all: &mut Vec<Command>) {
    for simple in split(line, depth) {
        let Simple { words, background, given } = simple;
        let mut plain = unwrapped(words.clone(), &file.shell);
        let program = plain.first().cloned().unwrap_or_default();
        let mut inner = None;
        if file.shell.shells.contains(&program) {
            let flag = |word: &String| {
                word.strip_prefix('-')
                    .is_some_and(|rest| !rest.starts_with('-') && rest.contains('c'))
            };
            inner = plain.iter().position(flag).and_then(|at| plain.get(at + 1)).cloned();
            inner = inner.or_else(|| (!given.is_empty()).then(|| given.clone()));
        } else if program == "eval" {
            inner = Some(plain[1..].join(" "));
        } else if !given.is_empty() {
            let bare = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
            if file.shell.interpreters.iter().any(|name| name == bare) {
                plain.push(given);
            }
        }
        let written = one_line(&based(words));
        let forms = [written, one_line(&plain)];
        all.push(Command { words: plain, forms, background });
        if let Some(inner) = inner.filter(|_| depth > 0) {
            read(&inner, file, depth - 1, all);
        }
    }
}

fn one_line(words: &[String]) -> String {
    words.iter().flat_map(|word| word.split_whitespace()).collect::<Vec<_>>().join(" ")
}

/// The program by its bare name.
fn based(mut words: Vec<String>) -> Vec<String> {
    if let Some(first) = words.first_mut()
        && let Some((_, name)) = first.rsplit_once('/')
    {
        *first = name.to_owned();
    }
    words
}

/// Takes off what says nothing of what the command does.
fn unwrapped(words: Vec<String>, shell: &Shell) -> Vec<String> {
    let mut words = words;
    loop {
        let assignments = words.iter().take_while(|word| is_assignment(word)).count();
        words = based(words.split_off(assignments));
        let wrapper = shell.wrappers.iter().find_map(|wrapper| {
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
