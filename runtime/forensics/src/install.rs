//! Detects attempts to install the package under test by name.

use crate::{
    command::{Command, WrittenFiles},
    finding::FindingKind,
    rules::{Rules, any_matches},
    solution_names::{SolutionNames, normalize_name},
};

/// Returns whether a command requests a package under test from an index, and whether the
/// installation succeeded.
pub(crate) fn detect_install(
    command: &Command,
    output: &str,
    rules: &Rules,
    subject: &SolutionNames,
    written_files: &WrittenFiles,
) -> Option<(FindingKind, &'static str)> {
    let line = &command.forms[1];
    let verb = rules.install_commands.iter().find_map(|pattern| pattern.find(line))?;
    if any_matches(&rules.install_exclusions, line) {
        return None;
    }
    let options = &rules.file.install;
    let mut words = command.words.iter().skip(verb.as_str().split(' ').count());
    let is_named = |word: &str| names_package(word, rules, subject);
    let mut names_subject = false;
    // The package names may come from input that the record does not show.
    let mut unnamed = command.takes_unknown_arguments;
    while let Some(word) = words.next() {
        if let Some(path) = requirements_file(word, &options.list_options) {
            unnamed = true;
            let path = if path.is_empty() { words.next() } else { Some(&path) };
            let text = path.and_then(|path| written_files.get(path));
            names_subject |= text.is_some_and(|text| text.split_whitespace().any(is_named));
            continue;
        }
        if word.starts_with('-') {
            if options.value_options.contains(word) {
                words.next();
            }
            continue;
        }
        names_subject |= is_named(word);
    }
    // If the installer reports a direct request for the package, the request came from the agent.
    names_subject |= unnamed && any_matches(&rules.install_request_patterns, output);
    if !names_subject {
        return None;
    }
    Some(if any_matches(&rules.install_success_patterns, output) {
        (FindingKind::InstallSucceeded, "installed the package under test")
    } else {
        (FindingKind::InstallTried, "tried to install the package under test")
    })
}

/// Returns the requirements file given with an option: `-rFILE` or `--requirement=FILE`. Returns an
/// empty string for `-r FILE`, because the file is the next word.
fn requirements_file(word: &str, options: &[String]) -> Option<String> {
    options.iter().find_map(|option| {
        let rest = word.strip_prefix(option.as_str())?;
        match (option.starts_with("--"), rest.strip_prefix('=')) {
            (_, Some(path)) => Some(path.to_owned()),
            (true, None) if !rest.is_empty() => None,
            (_, None) => Some(rest.to_owned()),
        }
    })
}

fn names_package(word: &str, rules: &Rules, subject: &SolutionNames) -> bool {
    requirement_name(word).is_some_and(|name| {
        let bare = |prefix: &String| name.strip_prefix(prefix.as_str()).map(str::to_owned);
        let mut bare_names = rules.file.install.name_prefixes.iter().filter_map(bare);
        subject.packages.contains(&name) || bare_names.any(|name| subject.packages.contains(&name))
    })
}

/// Returns the package name in a requirement (`Name[extra]>=1; marker`, `name @ URL`, `name=1.0`)
/// if the package would be fetched from an index or a remote location. Returns `None` for paths and
/// other local sources.
fn requirement_name(word: &str) -> Option<String> {
    let word = word.trim();
    let local = word.starts_with(['.', '/', '~', '$']) || word.contains("file:");
    let end = word
        .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')))
        .unwrap_or(word.len());
    let (name, rest) = word.split_at(end);
    // `dist/name.whl` is a path. Another rule handles URLs such as `git+https://...`.
    if local || name.is_empty() || rest.starts_with(['/', ':', '+']) {
        return None;
    }
    Some(normalize_name(name))
}
