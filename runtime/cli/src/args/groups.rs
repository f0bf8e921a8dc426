//! `proctor --help`: the commands, grouped by purpose.

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _};

use super::cli::Cli;

/// The commands of each group, in display order.
const COMMAND_GROUPS: [(&str, &[&str]); 6] = [
    ("Run agents", &["init", "run", "resume", "rerun", "fork", "grade"]),
    ("Run on many machines", &["submit", "worker", "cancel"]),
    ("Look at runs", &["report", "show", "view", "watch", "shell", "label"]),
    ("Compare and exchange", &["compare", "curve", "export", "import"]),
    ("Make and check tasks", &["tasks", "collect", "collect-pulls"]),
    ("Set up this machine", &["doctor", "scaffold", "clean", "schema", "completions", "man"]),
];

/// The parts of the help before and after the groups.
const HELP_HEADER: &str = "{about-with-newline}\n{usage-heading} {usage}\n";
const HELP_FOOTER: &str = "\nOptions:\n{options}\n\n`proctor help COMMAND` describes a command and its options.{after-help}";

/// Returns the clap command, with a help text that lists the subcommands by group.
pub fn cli_command() -> Command {
    let command = Cli::command();
    let template = help_template(&command);
    command.help_template(template)
}

fn help_template(command: &Command) -> String {
    let styles = command.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let width = command.get_subcommands().map(|one| one.get_name().len()).max().unwrap_or(0);
    let mut out = HELP_HEADER.to_owned();
    for (group, names) in COMMAND_GROUPS {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "\n{}{group}:{}", header.render(), header.render_reset());
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            // Show only the first clause of each description. The command's own help shows all of
            // it.
            let first = about.split(['.', ':', ';']).next().unwrap_or_default();
            let (on, off) = (literal.render(), literal.render_reset());
            let _ = writeln!(out, "  {on}{name:<width$}{off}  {first}");
        }
    }
    out + HELP_FOOTER
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory as _;

    use super::{COMMAND_GROUPS, cli_command};
    use crate::args::Cli;

    #[test]
    fn every_command_is_in_one_group() {
        let grouped: Vec<&str> =
            COMMAND_GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let cli = Cli::command();
        let all: BTreeSet<&str> = cli.get_subcommands().map(clap::Command::get_name).collect();
        assert_eq!(grouped.iter().copied().collect::<BTreeSet<_>>(), all);
        assert_eq!(grouped.len(), all.len(), "a command is in two groups");
    }

    /// Programs read the version with `-V`.
    #[test]
    fn short_version_has_no_commit() {
        let command = cli_command();
        let version = concat!("proctor ", env!("CARGO_PKG_VERSION"));
        assert_eq!(command.render_version().trim(), version);
        assert!(command.render_long_version().starts_with(version));
    }

    #[test]
    fn help_lists_each_command_below_its_group() {
        let help = cli_command().render_help().to_string();
        let mut rest = help.as_str();
        for (group, names) in COMMAND_GROUPS {
            rest = rest.split_once(&format!("\n{group}:\n")).expect(group).1;
            for name in names {
                let line = rest.lines().next().unwrap();
                let about = line.strip_prefix(&format!("  {name} ")).expect(name).trim();
                assert!(!about.is_empty() && line.chars().count() <= 130, "{line}");
                rest = rest.split_once('\n').unwrap().1;
            }
        }
        assert!(rest.contains("Options:") && rest.contains("--quiet"), "{help}");
        // The template would parse a brace as a tag.
        assert!(!help.contains(['{', '}']), "{help}");
        // The subcommands' own help keeps clap's default layout.
        let run = cli_command().find_subcommand_mut("run").unwrap().render_help().to_string();
        assert!(run.contains("--dry-run") && !run.contains(COMMAND_GROUPS[0].0), "{run}");
    }
}
