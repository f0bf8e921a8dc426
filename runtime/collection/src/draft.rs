//! Creates a recipe's task before its test ids are known.

use std::{collections::BTreeMap, path::Path};

use proctor_datasets::Recipe;
use proctor_setup::Sources;
use proctor_types::{Environment, Source, TASK_SCHEMA_VERSION, Task, TaskId, Timeouts};

use crate::{
    Carving, RecipeError, carve,
    statement::{StatementMetadata, render},
    test_files,
};

const WORKDIR: &str = "/testbed";

/// A task that is complete except for its frozen test ids.
#[derive(Debug, Clone)]
pub struct Draft {
    pub task: Task,
    pub carving: Carving,
    /// Test files that may contain the task's tests. Paths are relative to the work directory.
    pub test_files: Vec<String>,
    pub left_out_ids: Vec<String>,
    /// The ids of the tests to run. `None` runs all tests in the files.
    pub test_ids: Option<Vec<String>>,
    /// The only test file that may contain fail-to-pass tests. `None` allows all files.
    pub feature_test_file: Option<String>,
}

/// Downloads the source, carves it and renders the statement.
pub async fn draft_task(recipe: &Recipe, sources: &Sources) -> Result<Draft, RecipeError> {
    let source = Source::Pypi {
        pypi: recipe.package.clone(),
        version: recipe.version.clone(),
        sha256: recipe.sha256.clone(),
    };
    let tree = sources.fetch(&source, Path::new(".")).await?;
    let carving = carve(&tree.folder, &recipe.carve)?;
    let test_files = test_files::find_test_files(&tree.folder, &recipe.tests)?;
    let test_command: Vec<String> =
        ["/venv/bin/python", "-m", "pytest", "-q"].map(str::to_owned).to_vec();
    let statement = render(
        &StatementMetadata {
            title: &recipe.title,
            package: &recipe.package,
            version: &recipe.version,
            workdir: WORKDIR,
            test_command: test_command.join(" "),
        },
        &carving,
    )?;
    let mut timeouts = Timeouts::default();
    if let Some(seconds) = recipe.grade_seconds {
        timeouts.grade_seconds = seconds;
    }
    let task = Task {
        schema_version: TASK_SCHEMA_VERSION,
        id: TaskId::new(recipe.id.clone()),
        repo: recipe.repo.clone(),
        level: Some(1),
        statement,
        environment: Environment {
            base: Some("host".into()),
            setup: setup_commands(recipe),
            ..Environment::default()
        },
        source: Some(source),
        workdir: WORKDIR.into(),
        mask: Some(carving.mask()),
        hidden: recipe.hidden.clone(),
        blocked_urls: recipe_blocked_urls(recipe),
        fail_to_pass: Vec::new(),
        pass_to_pass: Vec::new(),
        test_command,
        test_patch: None,
        timeouts,
        gold: None,
        env: env_vars(recipe),
        user: None,
        platform: None,
        resources: None,
        cheats: Vec::new(),
        impossible: None,
        clock: None,
        categories: recipe.categories.clone(),
        meets_minima: None,
        created_at: None,
        details: Default::default(),
        from_scratch: None,
        test_results: None,
        benchmark: None,
        harbor: None,
        from_image: Default::default(),
    };
    let leave_out = recipe.leave_out.clone();
    Ok(Draft {
        task,
        carving,
        test_files,
        left_out_ids: leave_out,
        test_ids: None,
        feature_test_file: None,
    })
}

/// Returns the setup commands. The first command checks the Python version, because pip reports a
/// wrong version late and blames an arbitrary dependency.
fn setup_commands(recipe: &Recipe) -> Vec<String> {
    let mut out = Vec::new();
    let lowest: Option<Vec<&str>> = recipe
        .requires_python
        .split(',')
        .find_map(|part| part.trim().strip_prefix(">="))
        .map(|version| version.trim().split('.').collect());
    if let Some([major, minor, ..]) = lowest.as_deref()
        && let (Ok(major), Ok(minor)) = (major.parse::<u32>(), minor.parse::<u32>())
    {
        out.push(format!(
            "python3 -c 'import sys; sys.exit(None if sys.version_info >= ({major}, {minor}) else \
             \"{} {} needs Python {major}.{minor}\")'",
            recipe.package, recipe.version
        ));
    }
    out.push("python3 -m venv /venv".into());
    let quoted: Vec<String> =
        recipe.dependencies.iter().map(|name| format!("'{}'", name.replace('\'', ""))).collect();
    out.push(format!("/venv/bin/pip install --quiet --no-cache-dir {}", quoted.join(" ")));
    out
}

/// Returns the environment variables. Python always imports the package from the work directory,
/// and the package is never installed.
fn env_vars(recipe: &Recipe) -> BTreeMap<String, String> {
    let path: Vec<String> = recipe
        .python_path
        .iter()
        .map(|below| match below.as_str() {
            "." => WORKDIR.to_owned(),
            below => format!("{WORKDIR}/{below}"),
        })
        .collect();
    [("PYTHONPATH", path.join(":")), ("PYTHONDONTWRITEBYTECODE", "1".to_owned())]
        .map(|(key, value)| (key.to_owned(), value))
        .into()
}

/// Returns the recipe's blocked URLs, plus the URLs of its repository and releases, which contain
/// the solution.
fn recipe_blocked_urls(recipe: &Recipe) -> Vec<String> {
    blocked_urls(&recipe.package, recipe.repo.as_deref(), recipe.blocked_urls.clone())
}

/// Adds the URLs of the repository and of its releases to the given URLs.
pub(crate) fn blocked_urls(
    package: &str,
    repo: Option<&str>,
    mut urls: Vec<String>,
) -> Vec<String> {
    let name = package.to_lowercase();
    if let Some(repo) = repo {
        urls.push(format!("https://github.com/{repo}/**"));
        urls.push(format!("https://raw.githubusercontent.com/{repo}/**"));
        urls.push(format!("https://codeload.github.com/{repo}/**"));
    }
    urls.push(format!("https://pypi.org/**/{name}/**"));
    urls.push(format!("https://files.pythonhosted.org/**/{name}-*"));
    urls.push(format!("https://files.pythonhosted.org/**/{}-*", name.replace('-', "_")));
    urls.sort();
    urls.dedup();
    urls
}
