//! Installing the package under test by its name.

use super::{
    command::Command,
    finding::Kind,
    rules::{Rules, any},
    subject::{Subject, normal},
};

/// Whether a command asks an index for a package under test, and whether it came.
pub(crate) fn install(
    command: &Command,
    shown: &str,
    rules: &Rules,
    subject: &Subject,
) -> Option<(Kind, &'static str)> {
    let line = &command.forms[1];
    let verb = rules.install.iter().find_map(|pattern| pattern.find(line))?;
    if any(&rules.install_unless, line) {
        return None;
    }
    let options = &rules.file.install;
    let mut words = command.words.iter().skip(verb.as_str().split(' ').count());
    let mut named = false;
    while let Some(word) = words.next() {
        if word.starts_with('-') {
            if options.value_options.contains(word) {
                words.next();
            }
            continue;
        }
        named |= name_of(word).is_some_and(|name| {
            let bare = |prefix: &String| name.strip_prefix(prefix.as_str()).map(str::to_owned);
            subject.packages.contains(&name)
                || options
                    .name_prefixes
                    .iter()
                    .filter_map(bare)
                    .any(|name| subject.packages.contains(&name))
        });
    }
    if !named {
        return None;
    }
    Some(if any(&rules.install_succeeded, shown) {
        (Kind::InstallSucceeded, "installed the package under test")
    } else {
        (Kind::InstallTried, "tried to install the package under test")
    })
}

/// The name in a requirement (`Name[extra]>=1; marker`, `name @ URL`, `name=1.0`) that an index or a
/// remote place would answer; `None` for paths and for what is local.
fn name_of(word: &str) -> Option<String> {
    let word = word.trim();
    let local = word.starts_with(['.', '/', '~', '$']) || word.contains("file:");
    let end = word
        .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')))
        .unwrap_or(word.len());
    let (name, rest) = word.split_at(end);
    // `dist/name.whl` and `git+https://...`: a path, and a URL, which another rule reads.
    if local || name.is_empty() || rest.starts_with(['/', ':', '+']) {
        return None;
    }
    Some(normal(name))
}
