//! `proctor completions` and `proctor man`: print shell completions and write man pages.

use std::{fs, path::Path, process::ExitCode};

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::{
    args::Cli, commands::output_folder::check_new_or_empty, error::CommandError,
    print::print_result,
};

/// The program's name in completions.
const PROGRAM_NAME: &str = "proctor";

pub fn print_completions(shell: Shell) -> Result<ExitCode, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), PROGRAM_NAME, &mut script);
    print_result(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes one page per command: `proctor.1`, `proctor-run.1`, ...
pub fn write_man_pages(out: &Path) -> Result<ExitCode, CommandError> {
    check_new_or_empty(out)?;
    fs::create_dir_all(out)?;
    clap_mangen::generate_to(Cli::command(), out)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use std::{env, fmt::Write as _, path::Path};

    use clap::{Arg, Command, CommandFactory as _};

    use crate::args::Cli;

    const PAGE_HEADING: &str = "# Commands\n\nThis page is for anyone who looks up a command or an option. \
                        It is generated from the code (`PROCTOR_WRITE=1 cargo test -p proctor --bin proctor commands_page`). \
                        `proctor help COMMAND` prints the same.\n";

    fn commands_markdown() -> String {
        let mut out = PAGE_HEADING.to_owned();
        let mut cli = Cli::command();
        cli.build();
        add_section(&mut out, &cli, true);
        out
    }

    fn add_section(out: &mut String, command: &Command, is_top: bool) {
        if is_top {
            out.push_str("\nGlobal options:\n\n");
        } else {
            let mut command = command.clone();
            let usage = command.render_usage().to_string();
            let usage = usage.trim_start_matches("Usage:").trim();
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            // An alias gets its own section, as if it were a separate command.
            write!(
                out,
                "\n## {}\n\n{about}\n\n```\n{usage}\n```\n\n",
                command.get_bin_name().unwrap_or_default()
            )
            .unwrap();
        }
        // Describe global arguments only once.
        let is_documented = |arg: &&Arg| {
            arg.is_global_set() == is_top
                && !arg.is_hide_set()
                && !["help", "version"].contains(&arg.get_id().as_str())
        };
        for arg in command.get_arguments().filter(is_documented) {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let values: Vec<String> = arg
                .get_possible_values()
                .iter()
                .filter(|_| arg.get_action().takes_values())
                .map(|one| format!("`{}`", one.get_name()))
                .collect();
            let values = match values.as_slice() {
                [] => String::new(),
                some if some.iter().all(|one| help.contains(one.as_str())) => String::new(),
                some => format!(". One of {}", some.join(", ")),
            };
            writeln!(
                out,
                "- `{}`: {}{values}",
                arg.to_string().replace('`', ""),
                help.replace('\n', " ")
            )
            .unwrap();
        }
        for below in command.get_subcommands().filter(|one| one.get_name() != "help") {
            add_section(out, below, false);
        }
    }

    #[test]
    fn commands_page_is_current() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/commands.md");
        let page = commands_markdown();
        if env::var_os("PROCTOR_WRITE").is_some() {
            std::fs::write(&file, &page).unwrap();
        }
        let written = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            written == page,
            "docs/reference/commands.md is out of date: its second line says how to regenerate it"
        );
    }

    #[test]
    fn completions_and_man_pages_cover_every_command() {
        let mut bash = Vec::new();
        clap_complete::generate(
            clap_complete::Shell::Bash,
            &mut Cli::command(),
            "proctor",
            &mut bash,
        );
        let bash = String::from_utf8(bash).unwrap();
        let folder = tempfile::tempdir().unwrap();
        super::write_man_pages(folder.path()).unwrap();
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            assert!(bash.contains(name), "{name}");
            assert!(folder.path().join(format!("proctor-{name}.1")).exists(), "{name}");
        }
    }
}
