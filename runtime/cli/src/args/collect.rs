//! `collect` and `collect-pulls`.

use std::path::PathBuf;

use clap::Args;
use proctor_collection::Attacks;

use super::Kind;

fn attacks(text: &str) -> Result<Attacks, String> {
    match text {
        "all" => Ok(Attacks::All),
        _ => text.parse().map(Attacks::Sample).map_err(|_| "a number of tasks, or all".to_owned()),
    }
}

#[derive(Debug, Args)]
pub struct CollectArgs {
    /// A release on PyPI with its tests in the sdist, a commit by its whole hash, or a folder.
    #[arg(value_name = "NAME==VERSION|git+URL@COMMIT|PATH", required_unless_present = "renew")]
    pub origin: Option<String>,
    /// Makes the tasks of this dataset again from the newest releases of their packages, and says which no longer stand
    /// (`renewed.jsonl`).
    #[arg(long, value_name = "DATASET", conflicts_with_all = ["origin", "dry_run"])]
    pub renew: Option<String>,
    /// The dataset folder: `tasks.jsonl`, `lite.jsonl`, `featurebench.jsonl`, `rejects.jsonl`, `tops.jsonl`,
    /// `report.json`, `summary.md`. What it holds of these is replaced. Default: `collections/<name>`.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Runs the tests, and tells what each test file is about (`tops.jsonl`); takes nothing away.
    #[arg(long)]
    pub dry_run: bool,
    /// Where the sandboxes run.
    #[arg(long, value_enum, default_value_t = Kind::Native)]
    pub sandbox: Kind,
    /// Test files at once.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub jobs: u32,
    /// Asks this model what each test file is about, in the place of the weights, and for a paragraph on each feature: a
    /// table of `[models]` in --config, or VENDOR/NAME at a vendor of configs/endpoints.toml. The requests are kept in `model.jsonl` and `model`.
    #[arg(long, value_name = "MODEL")]
    pub llm: Option<String>,
    /// A TOML file with a table [models.MODEL], such as a run configuration.
    #[arg(long, value_name = "FILE", requires = "llm")]
    pub config: Option<PathBuf>,
    /// Tasks of each level that the pack of attacks on grading is tried on: a number, or `all`. Each takes as long as some
    /// thirty gradings.
    #[arg(long, value_name = "N|all", default_value = "1", value_parser = attacks)]
    pub attack: Attacks,
    /// Names the stream of chance: the order of one run, how much is taken away, which files are drawn.
    #[arg(long, default_value = "0")]
    pub seed: String,
}

#[derive(Debug, Args)]
pub struct CollectPullsArgs {
    /// Folders of git clones with their history. They are only read.
    ///
    /// Several clones become one dataset; the collection of each is in a folder below it. A clone that fails is named, and the
    /// others are collected.
    #[arg(required = true, value_name = "CLONE")]
    pub clones: Vec<PathBuf>,
    /// The dataset folder: `tasks.jsonl`, `feabench.jsonl` and its two other forms, `rejects.jsonl`, `report.json`,
    /// `summary.md`. What it holds of these is replaced. Default: `collections/<name>`.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Passes over what was merged before this day.
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub since: Option<String>,
    /// Titles, texts, labels and comments, one pull request a line, as the forge's API gives them. Without it commit
    /// messages say what they say. With several clones, repeat it for each, in their order.
    #[arg(long, value_name = "FILE")]
    pub pulls: Vec<PathBuf>,
    /// Default: what the clone says of its origin, else the folder's name. With several clones, repeat it for each.
    #[arg(long, value_name = "OWNER/NAME")]
    pub repo: Vec<String>,
    /// Leave a clone alone if none of its first 20 candidates gives a task.
    #[arg(long, conflicts_with = "dry_run")]
    pub fast_validation: bool,
    /// Asks this model which of them are about a new feature, in the place of lists of words: a table of `[models]` in
    /// --config, or VENDOR/NAME. The requests are kept in `model.jsonl` and `model`.
    #[arg(long, value_name = "MODEL")]
    pub llm: Option<String>,
    /// A TOML file with a table [models.MODEL], such as a run configuration.
    #[arg(long, value_name = "FILE", requires = "llm")]
    pub config: Option<PathBuf>,
    /// Runs nothing: writes `candidates.jsonl` and prints how many are left after each filter.
    #[arg(long)]
    pub dry_run: bool,
    /// Tries so many candidates of each clone, the newest first.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "dry_run")]
    pub limit: Option<u32>,
    /// Where the sandboxes run.
    #[arg(long, value_enum, default_value_t = Kind::Native)]
    pub sandbox: Kind,
    /// Candidates at once.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub jobs: u32,
}
