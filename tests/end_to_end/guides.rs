//! Follows the README and the guides in `docs/guides` to the letter: writes the files that they show
//! and runs their commands.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    pages::{inline_commands, markdown_files, shell_commands, shown_files},
    shipped_configs::write_rows,
    stage::{Stage, repository_root},
};

/// How a command is tested that is not run as written.
#[derive(Clone, Copy)]
enum Check {
    /// Plans the run but does not start it: it needs a paid model, Docker or an agent's packages.
    Plan,
    /// Checks the options only. The text names the reason, or the test that runs the command.
    Options(&'static str),
    /// Skips the command, which is not one of Proctor's. The text names what it needs.
    Skip(&'static str),
}

struct Guide {
    page: &'static str,
    /// The run directories that the commands read. Each is a copy of a run of the demo.
    runs: &'static [&'static str],
    /// Placeholders in the commands, and their values.
    values: &'static [(&'static str, &'static str)],
    /// Parts of commands that are not run as written. The first part that occurs in a command
    /// applies.
    exceptions: &'static [(&'static str, Check)],
}

const COLLECTED: Check = Check::Options("tests/end_to_end/collect.rs runs it");
const DOCTOR: Check = Check::Options("tests/end_to_end/rootless.rs runs it");
const LOCAL_MODEL: Check = Check::Skip("tests/end_to_end/local_model.rs starts the server");
const TEST_COMMAND: Check = Check::Skip("`.ci/run` runs it");
const PYPI: Check = Check::Skip("PyPI");
const VALIDATED: Check = Check::Options("tests/end_to_end/certificate.rs runs it");

/// A guide whose commands are all run as written.
const PLAIN: Guide = Guide { page: "", runs: &[], values: &[], exceptions: &[] };

const GUIDES: [Guide; 15] = [
    Guide {
        page: "README.md",
        runs: &["runs/first"],
        exceptions: &[
            ("OPENAI_API_KEY=", Check::Plan),
            ("pip install", PYPI),
            ("run bench.toml", Check::Plan),
            ("cargo fmt", TEST_COMMAND),
            ("cargo clippy", TEST_COMMAND),
            ("cargo test", TEST_COMMAND),
        ],
        ..PLAIN
    },
    Guide {
        page: "docs/guides/benchmark-a-model.md",
        exceptions: &[("--model openai/gpt-5.1", Check::Plan)],
        ..PLAIN
    },
    Guide {
        page: "docs/guides/bring-a-scaffold.md",
        runs: &["runs/mine"],
        exceptions: &[("run mine.toml", Check::Plan)],
        ..PLAIN
    },
    Guide {
        page: "docs/guides/compare-scaffolds.md",
        runs: &["runs/agents"],
        exceptions: &[
            ("scaffold add", Check::Options("tests/end_to_end/bundles.rs builds bundles")),
            ("run scaffold-comparison", Check::Plan),
        ],
        ..PLAIN
    },
    Guide {
        page: "docs/guides/featurebench.md",
        runs: &["runs/features"],
        exceptions: &[("proctor run", Check::Plan)],
        ..PLAIN
    },
    Guide {
        page: "docs/guides/local-model.md",
        runs: &["runs/local"],
        values: &[("roman bash", "roman tools")],
        exceptions: &[
            ("/tmp/model", LOCAL_MODEL),
            ("run local-model", Check::Plan),
            ("URL", LOCAL_MODEL),
            ("MESSAGES", LOCAL_MODEL),
            ("TOOLS", LOCAL_MODEL),
        ],
    },
    Guide {
        page: "docs/guides/make-a-dataset.md",
        exceptions: &[
            ("collect", COLLECTED),
            ("tasks list", Check::Options("it needs the reader's own shape or dataset")),
            ("tasks show", Check::Options("it needs a collected dataset")),
            ("proctor shell", Check::Skip("a collected dataset")),
            ("git -C work", Check::Skip("the work directory of a collected task")),
            ("proctor grade", Check::Options("it needs a collected dataset")),
            ("tasks validate", VALIDATED),
            ("tasks quality", VALIDATED),
        ],
        ..PLAIN
    },
    Guide {
        page: "docs/guides/many-machines.md",
        exceptions: &[("proctor", Check::Options("tests/end_to_end/slurm.rs runs it"))],
        ..PLAIN
    },
    Guide { page: "docs/guides/python.md", exceptions: &[("pip ", PYPI)], ..PLAIN },
    Guide {
        page: "docs/guides/read-a-trajectory.md",
        runs: &["RUN"],
        values: &[
            ("TASK ARM", "boltons tools"),
            ("TASK/ARM/1", "boltons__intlists-1/tools/scripted/1"),
            ("--step 7", "--step 2"),
        ],
        exceptions: &[("jq", Check::Skip("jq"))],
    },
    Guide {
        page: "docs/guides/reproduce.md",
        exceptions: &[
            ("git clone", Check::Skip("GitHub")),
            ("proctor", Check::Options("collecting the tasks takes hours")),
        ],
        ..PLAIN
    },
    Guide { page: "docs/guides/step-limits.md", ..PLAIN },
    Guide {
        page: "docs/guides/swe-bench-verified.md",
        exceptions: &[
            ("doctor", DOCTOR),
            ("proctor run", Check::Plan),
            ("proctor grade", Check::Options("it needs the benchmark's images")),
        ],
        ..PLAIN
    },
    Guide { page: "docs/guides/troubleshooting.md", exceptions: &[("doctor", DOCTOR)], ..PLAIN },
    Guide { page: "docs/guides/write-a-task.md", ..PLAIN },
];

fn read_page(page: &str) -> String {
    fs::read_to_string(repository_root().join(page)).unwrap()
}

/// Removes an option and its value from a command.
fn without_option(command: &str, option: &str) -> String {
    let Some((before, after)) = command.split_once(&format!(" {option} ")) else {
        return command.to_owned();
    };
    let rest = after.split_once(' ').map_or("", |(_, rest)| rest);
    format!("{before} {rest}")
}

/// Returns the command that plans a run without starting it or reading an earlier one.
fn plan_command(command: &str) -> String {
    let mut plan = without_option(command, "--out");
    for option in [" --extend", " --check-tasks", " --dry-run"] {
        plan = plan.replace(option, "");
    }
    plan + " --dry-run"
}

/// Follows a guide in its own folder.
struct Reader<'a> {
    stage: &'a Stage,
    folder: PathBuf,
    /// A cache with one row of each dataset that the guides name.
    rows: &'a Path,
}

impl Reader<'_> {
    fn shell(&self, line: &str) -> Command {
        let programs = Path::new(env!("CARGO_BIN_EXE_proctor")).parent().unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        let usual = self.stage.proctor([""; 0]);
        let mut command = Command::new("sh");
        command
            .args(["-ec", line])
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .envs(usual.get_envs().filter_map(|(key, value)| Some((key, value?))))
            .env("PATH", format!("{}:{path}", programs.display()));
        command
    }

    /// Tests one command. Returns its output if it fails.
    fn try_command(&self, command: &str, check: Option<Check>) -> Result<(), String> {
        let line = command.replace("cargo run -- ", "proctor ");
        let output = match check {
            Some(Check::Skip(needs)) => {
                eprintln!("skipped: {command} ({needs})");
                return Ok(());
            }
            Some(Check::Options(why)) => {
                eprintln!("options only: {command} ({why})");
                let first = line.split(" | ").next().unwrap_or_default();
                self.shell(&format!("{first} --help")).output()
            }
            Some(Check::Plan) => self
                .shell(&plan_command(&line))
                .env("PROCTOR_CACHE", self.rows)
                .env("HF_ENDPOINT", "http://127.0.0.1:1")
                .output(),
            None if line.starts_with("proctor view ") => return self.open_viewer(&line),
            None => self.shell(&line).output(),
        };
        let output = output.unwrap();
        match output.status.success() {
            true => Ok(()),
            false => {
                let said = [output.stdout, output.stderr].concat();
                Err(format!("{command}: {}\n{}", output.status, String::from_utf8_lossy(&said)))
            }
        }
    }

    /// Starts the viewer, which runs until it is killed.
    fn open_viewer(&self, line: &str) -> Result<(), String> {
        let viewer = self.shell(&format!("exec {line}")).stdout(Stdio::piped()).spawn();
        let mut viewer = viewer.unwrap();
        let mut first = String::new();
        BufReader::new(viewer.stdout.take().unwrap()).read_line(&mut first).unwrap();
        viewer.kill().ok();
        viewer.wait().ok();
        match first.starts_with("http://127.0.0.1:") {
            true => Ok(()),
            false => Err(format!("{line}: the first line is {first:?}")),
        }
    }

    /// Follows the guide. Returns the commands that fail, and exceptions that apply to no command.
    fn follow(&self, guide: &Guide, demo_run: &Path) -> Vec<String> {
        fs::create_dir_all(&self.folder).unwrap();
        for name in ["configs", "scaffolds"] {
            symlink(repository_root().join(name), self.folder.join(name)).unwrap();
        }
        for run in guide.runs {
            let copy = self.folder.join(run);
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            assert!(
                Command::new("cp").arg("-r").arg(demo_run).arg(copy).status().unwrap().success()
            );
        }
        let page = read_page(guide.page);
        for (path, content) in shown_files(&page) {
            let file = self.folder.join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
        }
        let (mut failures, mut applied) = (Vec::new(), BTreeSet::new());
        for command in shell_commands(&page) {
            let exception = guide.exceptions.iter().find(|(part, _)| command.contains(part));
            applied.extend(exception.map(|(part, _)| *part));
            let fill = |text: String, (name, value): &(&str, &str)| text.replace(name, value);
            let command = guide.values.iter().fold(command, fill);
            if let Err(failure) = self.try_command(&command, exception.map(|(_, check)| *check)) {
                failures.push(format!("{}: {failure}", guide.page));
            }
        }
        let unused = guide.exceptions.iter().filter(|(part, _)| !applied.contains(part));
        failures.extend(unused.map(|(part, _)| format!("{}: no command has {part}", guide.page)));
        failures
    }
}

#[test]
fn guides_can_be_followed_to_the_letter() {
    let stage = Stage::new();
    let demo_run = stage.path("demo-run");
    stage.run(["run", "configs/demo.toml", "--out", demo_run.to_str().unwrap()], 0);
    let rows = stage.path("rows");
    write_rows(&rows);
    let follow = |guide: &Guide| {
        let folder = stage.path(&guide.page.replace('/', "-"));
        Reader { stage: &stage, folder, rows: &rows }.follow(guide, &demo_run)
    };
    let failures: Vec<_> = GUIDES.iter().flat_map(follow).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Returns the README and the guides.
fn guide_pages() -> Vec<String> {
    let root = repository_root();
    let guides = markdown_files(&root.join("docs/guides"));
    let pages = guides.iter().map(|file| file.strip_prefix(&root).unwrap().to_str().unwrap());
    pages.chain(["README.md"]).map(str::to_owned).collect()
}

#[test]
fn every_guide_with_commands_is_tested() {
    let pages = guide_pages();
    let with_commands: BTreeSet<_> = pages
        .iter()
        .map(String::as_str)
        .filter(|page| !shell_commands(&read_page(page)).is_empty())
        .collect();
    let tested: BTreeSet<_> = GUIDES.iter().map(|guide| guide.page).collect();
    assert_eq!(with_commands, tested);
}

#[test]
fn inline_commands_of_guides_have_existing_options() {
    let stage = Stage::new();
    let reader = Reader { stage: &stage, folder: stage.path(""), rows: stage.dir.path() };
    let mut tried = 0;
    for page in guide_pages() {
        for command in inline_commands(&read_page(&page)) {
            let command = command.replace(" N", " 1").replace(" ...", "");
            let checked = reader.try_command(&command, Some(Check::Options("inline")));
            assert_eq!(checked, Ok(()), "{page}");
            tried += 1;
        }
    }
    assert!(tried > 20, "found only {tried} commands");
}

#[test]
fn plan_command_starts_nothing() {
    let command = "proctor run demo --limit 20 --check-tasks --extend --out runs/demo --jobs 1";
    assert_eq!(plan_command(command), "proctor run demo --limit 20 --jobs 1 --dry-run");
    assert_eq!(plan_command("proctor run demo --out x"), "proctor run demo  --dry-run");
}
