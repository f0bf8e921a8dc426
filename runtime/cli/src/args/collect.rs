//! `collect` and `collect-pulls`.

use std::path::PathBuf;

use clap::Args;
use proctor_collection::AttackSelection;

use super::sandbox::SandboxArg;

fn parse_attack_selection(text: &str) -> Result<AttackSelection, String> {
    match text {
        "all" => Ok(AttackSelection::All),
        _ => text
            .parse()
            .map(AttackSelection::Sample)
            .map_err(|_| "expected a number of tasks, or `all`".to_owned()),
    }
}

#[derive(Debug, Args)]
pub struct CollectArgs {
    /// The repository to create tasks from: a PyPI release whose sdist includes the tests, a Git
    /// commit (full hash), or a local folder.
    #[arg(value_name = "NAME==VERSION|git+URL@COMMIT|PATH", required_unless_present = "renew")]
    pub origin: Option<String>,
    /// Recreate this dataset's tasks from the newest releases of their packages. `renewed.jsonl`
    /// lists the result for each task.
    #[arg(long, value_name = "DATASET", conflicts_with_all = ["origin", "dry_run"])]
    pub renew: Option<String>,
    /// Write the dataset to this folder. Existing files with these names are overwritten:
    /// `tasks.jsonl`, `lite.jsonl`, `featurebench.jsonl`, `rejects.jsonl`, `solvability.jsonl`,
    /// `tops.jsonl`, `report.json`, `summary.md`. Default: `collections/<name>`.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Run the tests and list the functions that each test file tests (`tops.jsonl`), but don't
    /// create tasks.
    #[arg(long)]
    pub dry_run: bool,
    /// Sandbox back end to use.
    #[arg(long, value_enum, default_value_t = SandboxArg::Native)]
    pub sandbox: SandboxArg,
    /// Number of test files to process in parallel.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub jobs: u32,
    /// Use this model instead of the built-in scores to decide which functions each test file
    /// tests. The model also describes each feature. MODEL is the name of a model defined in the
    /// --config file, or VENDOR/NAME. Requests and responses are recorded in the file `model.jsonl`
    /// and the folder `model`.
    #[arg(long, value_name = "MODEL")]
    pub llm: Option<String>,
    /// A TOML file that defines the --llm model in a [models.MODEL] table, such as a run
    /// configuration.
    #[arg(long, value_name = "FILE", requires = "llm")]
    pub config: Option<PathBuf>,
    /// Number of tasks per level to check with the grading attacks, or `all`. Checking a task takes
    /// about as long as grading it 30 times.
    #[arg(long, value_name = "N|all", default_value = "1", value_parser = parse_attack_selection)]
    pub attack: AttackSelection,
    /// Create tasks from at most N test files, selected using --seed. All tests still run.
    #[arg(long, value_name = "N", conflicts_with_all = ["renew", "dry_run"], value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
    /// Random seed for the test order, the amount of code to remove and the file sample.
    #[arg(long, default_value = "0")]
    pub seed: String,
}

#[derive(Debug, Args)]
pub struct CollectPullsArgs {
    /// Git clones with their full history. Proctor does not modify the clones.
    ///
    /// Several clones produce one dataset with a subfolder per clone. If a clone fails, the failure
    /// is reported and the other clones are still collected.
    #[arg(required = true, value_name = "CLONE")]
    pub clones: Vec<PathBuf>,
    /// Write the dataset to this folder, and replace existing files of these names: `tasks.jsonl`,
    /// `feabench.jsonl` and its two variants, `rejects.jsonl`, `report.json`, `summary.md`.
    /// Default: `collections/<name>`.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Skip pull requests that were merged before this date.
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub since: Option<String>,
    /// A file with the pull requests' titles, descriptions, labels and comments from the forge's
    /// API, one pull request per line. Without this option, commit messages are used. With several
    /// clones, repeat the option once per clone, in the same order.
    #[arg(long, value_name = "FILE")]
    pub pulls: Vec<PathBuf>,
    /// The repository's name. Default: the name in the URL of the clone's `origin` remote, or the
    /// folder's name. With several clones, repeat the option once per clone, in the same order.
    #[arg(long, value_name = "OWNER/NAME")]
    pub repo: Vec<String>,
    /// Skip a clone's remaining candidates if none of the first 20 becomes a task.
    #[arg(long, conflicts_with = "dry_run")]
    pub fast_validation: bool,
    /// Use this model, not word lists, to decide which pull requests add a feature. MODEL is the
    /// name of a model defined in the --config file, or VENDOR/NAME. Requests and responses are
    /// recorded in the file `model.jsonl` and the folder `model`.
    #[arg(long, value_name = "MODEL")]
    pub llm: Option<String>,
    /// A TOML file that defines the --llm model in a [models.MODEL] table, such as a run
    /// configuration.
    #[arg(long, value_name = "FILE", requires = "llm")]
    pub config: Option<PathBuf>,
    /// Write `candidates.jsonl` and print the number of candidates left after each filter, without
    /// running tests.
    #[arg(long)]
    pub dry_run: bool,
    /// Try at most N candidates from each clone, newest first.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "dry_run")]
    pub limit: Option<u32>,
    /// Sandbox back end to use.
    #[arg(long, value_enum, default_value_t = SandboxArg::Native)]
    pub sandbox: SandboxArg,
    /// Number of candidates to process in parallel.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub jobs: u32,
}
