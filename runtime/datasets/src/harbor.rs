//! Harbor tasks: a task folder, a folder of task folders, or a `dataset.toml`.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use proctor_harbor::{
    Config, DATASET_FILE, Diagnostic, Finding, Folder, ParsedConfig, SOLVE_SCRIPT, TASK_FILE,
    TEST_SCRIPT, lint, read_config, read_manifest,
};
use proctor_types::{
    Environment, Harbor, HarborNetwork, HarborSeparate, HarborVerifier, MAX_CPUS, MAX_SIZE_MB,
    MIN_CPUS, MIN_MEMORY_MB, ResourceAmount, Resources, Source, TASK_SCHEMA_VERSION, Task, TaskId,
    Timeouts, sha256_hex,
};
use serde_json::Value;

use crate::{BadRow, DatasetError};

/// The name of the shape.
pub(crate) const SHAPE_NAME: &str = "harbor";

/// Maximum depth of the search for tasks.
const MAX_SEARCH_DEPTH: usize = 3;

/// Time limit for each of the agent's commands, in seconds, if the task has no time limit for the
/// agent.
const DEFAULT_COMMAND_SECONDS: f64 = 3600.0;

/// Paths outside `tests/` and `solution/` that must not be links out of the task folder. The loader
/// checks `task.toml` and `instruction.md` when it reads them.
const LINK_CHECKED_PATHS: [&str; 4] =
    ["README.md", ".gitignore", ENVIRONMENT_DIR, "environment/Dockerfile"];

/// The subfolder of a task folder that defines the image.
const ENVIRONMENT_DIR: &str = "environment";

/// What a pattern refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HarborSource {
    /// A task folder, or a folder that looks like one.
    Task(PathBuf),
    /// A `dataset.toml`.
    Dataset(PathBuf),
}

/// A task that was read from a folder.
pub(crate) struct HarborTask {
    pub(crate) task: Task,
    pub(crate) warnings: Vec<String>,
    /// The line of the task's name in `task.toml`, if there is one.
    pub(crate) name_line: Option<usize>,
}

/// Returns the Harbor folders and files that a pattern refers to, if any. `is_harbor_requested` is
/// true if the address has the option `shape=harbor`.
pub(crate) fn find_sources(
    pattern: &str,
    base_dir: &Path,
    is_harbor_requested: bool,
) -> Result<Option<Vec<HarborSource>>, DatasetError> {
    let plain = base_dir.join(pattern);
    let found = if plain.exists() {
        sources_at_path(&plain)
    } else if pattern.contains(['*', '?', '[']) {
        sources_matching_glob(pattern, base_dir)
    } else {
        Vec::new()
    };
    if !found.is_empty() {
        return Ok(Some(found));
    }
    if is_harbor_requested {
        let why =
            "contains no Harbor task (a folder with `task.toml` and `instruction.md`)".to_owned();
        return Err(DatasetError::Folder { folder: plain, why });
    }
    Ok(None)
}

fn sources_at_path(path: &Path) -> Vec<HarborSource> {
    if path.is_file() {
        let parent = path.parent().map(Path::to_path_buf).unwrap_or_default();
        return match path.file_name().and_then(|name| name.to_str()) {
            Some(TASK_FILE) if is_harbor_task(&parent) => vec![HarborSource::Task(parent)],
            Some(DATASET_FILE) if is_harbor_dataset(path) => {
                vec![HarborSource::Dataset(path.to_owned())]
            }
            _ => Vec::new(),
        };
    }
    let dataset = path.join(DATASET_FILE);
    if is_harbor_dataset(&dataset) {
        return vec![HarborSource::Dataset(dataset)];
    }
    let folders = find_task_folders(path, MAX_SEARCH_DEPTH);
    match folders.iter().any(|folder| is_harbor_task(folder)) {
        true => folders.into_iter().map(HarborSource::Task).collect(),
        false => Vec::new(),
    }
}

/// Returns the Harbor tasks and datasets that a glob matches. Ignores data files, which belong to
/// other shapes.
fn sources_matching_glob(pattern: &str, base_dir: &Path) -> Vec<HarborSource> {
    let full = Path::new(&glob::Pattern::escape(&base_dir.to_string_lossy())).join(pattern);
    let Ok(paths) = glob::glob(&full.to_string_lossy()) else { return Vec::new() };
    let mut places = Vec::new();
    for path in paths.filter_map(Result::ok) {
        let named = |name: &str| path.file_name().is_some_and(|own| own == name);
        let found = sources_at_path(&path);
        if found.is_empty() && path.is_file() && !named(TASK_FILE) && !named(DATASET_FILE) {
            return Vec::new();
        }
        for place in found {
            if !places.contains(&place) {
                places.push(place);
            }
        }
    }
    places
}

/// Returns the task folders at or below a folder, sorted, including folders that only look like
/// one.
fn find_task_folders(path: &Path, depth: usize) -> Vec<PathBuf> {
    let has = |name: &str| path.join(name).exists();
    if is_harbor_task(path)
        || (has("instruction.md") && (has("tests") || has(ENVIRONMENT_DIR)) && !has(TASK_FILE))
    {
        return vec![path.to_owned()];
    }
    if depth == 0 {
        return Vec::new();
    }
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let mut below: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."))
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    below.sort();
    below.iter().flat_map(|folder| find_task_folders(folder, depth - 1)).collect()
}

/// Whether a folder's `task.toml` is a Harbor task, not a native task or recipe.
fn is_harbor_task(folder: &Path) -> bool {
    let file = folder.join(TASK_FILE);
    let Ok(bytes) = fs::read(&file) else { return false };
    let text = String::from_utf8_lossy(&bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    match toml::from_str::<Value>(text) {
        Ok(value) => {
            let own = ["statement", "recipe"].iter().any(|key| value.get(key).is_some());
            !own && !value.get("schema_version").is_some_and(Value::is_number)
        }
        // If the file is invalid TOML, the files next to it show whether this is a Harbor task.
        Err(_) => folder.join("instruction.md").exists() || folder.join(ENVIRONMENT_DIR).exists(),
    }
}

fn is_harbor_dataset(file: &Path) -> bool {
    file.is_file()
        && fs::read_to_string(file).is_ok_and(|text| {
            let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
            match toml::from_str::<Value>(text) {
                Ok(value) => value.get("dataset").is_some(),
                Err(_) => true,
            }
        })
}

/// Reads the task in a folder.
///
/// # Errors
/// Lists everything that is invalid or unsupported.
pub(crate) fn load_task(path: &Path) -> Result<HarborTask, Vec<BadRow>> {
    let file = path.join(TASK_FILE);
    let bad = |mistake: Diagnostic| bad_row(&file, mistake);
    let whole = |message: String| vec![bad(Diagnostic { key: None, line: None, message })];
    let folder = Folder::open(path).map_err(|error| whole(error.to_string()))?;
    folder.check_path(TASK_FILE).map_err(whole)?;
    let bytes = fs::read(&file).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            whole("is missing, but the folder looks like a Harbor task".into())
        }
        _ => whole(format!("cannot be read: {error}")),
    })?;
    let text = String::from_utf8(bytes).map_err(|_| whole("is not UTF-8".into()))?;
    let mut wrong = Vec::new();
    let mut has_steps = false;
    let read = match read_config(&text) {
        Ok(read) => Some(read),
        Err(mistakes) => {
            has_steps = mistakes.iter().any(|mistake| mistake.key.as_deref() == Some("steps"));
            wrong.extend(mistakes.into_iter().map(bad));
            None
        }
    };
    let mut complain = |name: &str, what: String| {
        wrong.push(bad_row(&path.join(name), Diagnostic { key: None, line: None, message: what }));
    };
    let statement = read_statement(&folder).unwrap_or_else(|(name, what)| {
        // In a task with several steps, each step has its own instructions.
        if !has_steps {
            complain(name, what);
        }
        String::new()
    });
    let config = read.as_ref().map(|read| &read.config);
    for (name, what) in list_file_problems(&folder, config) {
        complain(&name, what);
    }
    let resources = config.map_or(Ok(None), parse_resources).unwrap_or_else(|what| {
        complain(TASK_FILE, what);
        None
    });
    let Some(ParsedConfig { config, warnings, name_line }) = read.filter(|_| wrong.is_empty())
    else {
        return Err(wrong);
    };
    let digest = folder.digest().map_err(|message| {
        vec![bad_row(&path.join(""), Diagnostic { key: None, line: None, message })]
    })?;
    let name = folder.root().file_name().map(|name| name.to_string_lossy().into_owned());
    let id = config.name.clone().or(name).unwrap_or_default();
    let warnings = warnings.into_iter().map(|one| bad(one).to_string()).collect();
    let task = build_task(id, statement, resources, digest, config, &folder);
    Ok(HarborTask { task, warnings, name_line })
}

fn build_task(
    id: String,
    statement: String,
    resources: Option<Resources>,
    digest: String,
    config: Config,
    folder: &Folder,
) -> Task {
    let separate = separate_verifier(&config, folder);
    let Config { agent, verifier, environment, solution_env, labels, verifier_environment, .. } =
        config;
    // If Harbor does not build the image, it copies the folder's files into the work directory.
    let has_dockerfile = folder.contains("environment/Dockerfile");
    let source =
        (environment.image.is_some() && !has_dockerfile && folder.has_entries(ENVIRONMENT_DIR))
            .then(|| Source::Path { path: ENVIRONMENT_DIR.to_owned() });
    let dockerfile = environment.image.is_none().then(|| ENVIRONMENT_DIR.to_owned());
    let phase = |own: Option<HarborNetwork>| own.unwrap_or_else(|| environment.network.clone());
    let of_verifier = match &verifier_environment {
        Some(own) => verifier.network.unwrap_or_else(|| own.network.clone()),
        None => phase(verifier.network),
    };
    let harbor = Harbor {
        digest,
        workdir: environment.workdir.clone(),
        agent_seconds: agent.timeout_seconds,
        agent_network: phase(agent.network),
        verifier: HarborVerifier {
            env: verifier.env,
            user: verifier.user,
            network: of_verifier,
            separate,
        },
        solution: folder.contains(&format!("solution/{SOLVE_SCRIPT}")).then_some(solution_env),
    };
    Task {
        schema_version: TASK_SCHEMA_VERSION,
        id: TaskId::new(id),
        repo: None,
        level: None,
        statement,
        environment: Environment {
            image: environment.image,
            dockerfile,
            base: None,
            setup: Vec::new(),
        },
        source,
        workdir: String::new(),
        mask: None,
        hidden: Vec::new(),
        blocked_urls: Vec::new(),
        fail_to_pass: Vec::new(),
        pass_to_pass: Vec::new(),
        test_command: vec![format!("/tests/{TEST_SCRIPT}")],
        test_results: None,
        test_patch: None,
        timeouts: Timeouts {
            command_seconds: agent.timeout_seconds.unwrap_or(DEFAULT_COMMAND_SECONDS),
            grade_seconds: verifier.timeout_seconds,
        },
        gold: None,
        env: environment.env,
        clock: None,
        user: agent.user,
        platform: None,
        resources,
        cheats: Vec::new(),
        impossible: None,
        categories: labels,
        meets_minima: None,
        created_at: None,
        from_scratch: None,
        details: Default::default(),
        benchmark: None,
        harbor: Some(harbor),
        from_image: Default::default(),
    }
}

/// Returns where the verifier runs if it is separate from the agent: in an image with the tests, or
/// in a fresh copy of the task's environment.
fn separate_verifier(config: &Config, folder: &Folder) -> Option<HarborSeparate> {
    if !config.has_separate_verifier {
        return None;
    }
    let own = config.verifier_environment.as_ref();
    let image = own.and_then(|own| own.image.clone());
    let dockerfile =
        (image.is_none() && folder.contains("tests/Dockerfile")).then(|| "tests".to_owned());
    let bundled = image.is_some() || dockerfile.is_some();
    let environment = bundled.then(|| Environment { image, dockerfile, ..Environment::default() });
    let settings = own.unwrap_or(&config.environment);
    Some(HarborSeparate {
        environment,
        env: settings.env.clone(),
        workdir: settings.workdir.clone(),
        artifacts: config.artifacts.clone(),
        bundled,
    })
}

/// Returns the prompt without its leading canary lines.
fn read_statement(folder: &Folder) -> Result<String, (&'static str, String)> {
    const STATEMENT_FILE: &str = "instruction.md";
    folder.check_path(STATEMENT_FILE).map_err(|why| (STATEMENT_FILE, why))?;
    let bytes =
        fs::read(folder.root().join(STATEMENT_FILE)).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => (STATEMENT_FILE, "is missing".to_owned()),
            _ => (STATEMENT_FILE, format!("cannot be read: {error}")),
        })?;
    let text = String::from_utf8(bytes).map_err(|_| (STATEMENT_FILE, "is not UTF-8".to_owned()))?;
    let text = strip_canary_lines(text.strip_prefix('\u{feff}').unwrap_or(&text));
    if text.trim().is_empty() {
        return Err((
            STATEMENT_FILE,
            "is empty, so the agent would get no instructions".to_owned(),
        ));
    }
    Ok(text.to_owned())
}

fn strip_canary_lines(text: &str) -> &str {
    let is_canary = |line: &str| {
        let line = line.trim().to_lowercase();
        let comment = line.starts_with("<!--") && line.ends_with("-->");
        (comment || line.starts_with('#')) && line.contains("canary")
    };
    let mut rest = text;
    let drop_while = |rest: &mut &str, drops: &dyn Fn(&str) -> bool| {
        while !rest.is_empty() {
            let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
            if !drops(line) {
                break;
            }
            *rest = after;
        }
    };
    drop_while(&mut rest, &is_canary);
    drop_while(&mut rest, &|line| line.trim().is_empty());
    rest
}

/// Lists required files that are missing from a folder, files that need unsupported features, and
/// links that lead out of the folder. Without a valid configuration, it is unknown which files are
/// required.
fn list_file_problems(folder: &Folder, config: Option<&Config>) -> Vec<(String, String)> {
    let mut wrong: Vec<(String, String)> = Vec::new();
    let mut complain = |name: &str, what: String| wrong.push((name.to_owned(), what));
    match proctor_harbor::Rules::get() {
        Ok(rules) => {
            for (name, what) in rules.unsupported_files() {
                if folder.contains(name) {
                    complain(name, format!("needs {what}, which Proctor does not support"));
                }
            }
        }
        Err(why) => complain("", why),
    }
    for name in LINK_CHECKED_PATHS {
        if let Err(why) = folder.check_path(name) {
            complain(name, why);
        }
    }
    let compose = folder.contains("environment/docker-compose.yaml");
    let has_image = config.is_none_or(|config| config.environment.image.is_some());
    if !has_image && !folder.contains("environment/Dockerfile") && !compose {
        complain(
            "environment/Dockerfile",
            "is missing; add one, or set `environment.docker_image` in task.toml".into(),
        );
    }
    let separate = config.filter(|config| config.has_separate_verifier);
    let has_own_image = |config: &Config| {
        let own = config.verifier_environment.as_ref();
        own.is_some_and(|own| own.image.is_some()) || folder.contains("tests/Dockerfile")
    };
    let bundled = config.is_none() || separate.is_some_and(has_own_image);
    if separate.is_some() && !bundled && folder.contains("tests/docker-compose.yaml") {
        let what = "needs several services (Docker Compose), which Proctor does not support";
        complain("tests/docker-compose.yaml", what.into());
    }
    for (inputs, script, needed) in
        [("tests", TEST_SCRIPT, !bundled), ("solution", SOLVE_SCRIPT, false)]
    {
        if let Err(why) = folder.check_links(inputs) {
            complain(inputs, why);
            continue;
        }
        let name = format!("{inputs}/{script}");
        match (folder.contains(&name), folder.is_excluded(&name)) {
            (false, _) if needed => complain(&name, "is missing".into()),
            (true, Ok(true)) => complain(&name, "is excluded by .harborignore".into()),
            (_, Err(why)) => complain(inputs, why),
            _ => {}
        }
    }
    wrong
}

fn parse_resources(config: &Config) -> Result<Option<Resources>, String> {
    let (cpus, memory) = (config.environment.cpus, config.environment.memory_mb);
    if let Some(cpus) = cpus.filter(|cpus| !(MIN_CPUS..=MAX_CPUS).contains(cpus)) {
        return Err(format!(
            "environment.cpus is {cpus}, but must be from {MIN_CPUS} to {MAX_CPUS}"
        ));
    }
    if let Some(memory) = memory.filter(|memory| !(MIN_MEMORY_MB..=MAX_SIZE_MB).contains(memory)) {
        let within = format!("it must be from {MIN_MEMORY_MB} to {MAX_SIZE_MB}");
        return Err(format!("environment.memory_mb is {memory}; {within}"));
    }
    let resources = Resources {
        cpus: cpus.map(ResourceAmount::Plain),
        memory_mb: memory.map(ResourceAmount::Plain),
    };
    Ok((cpus.is_some() || memory.is_some()).then_some(resources))
}

/// Runs Harbor's lint rules on a task folder.
///
/// # Errors
/// The folder cannot be read, or selects an unknown lint rule.
pub fn lint_folder(folder: &Path) -> Result<Vec<Finding>, String> {
    let opened = Folder::open(folder).map_err(|error| format!("{}: {error}", folder.display()));
    lint(&opened?)
}

/// Returns the task folders of a dataset, in the order of the file. An invalid entry does not
/// affect the others.
pub(crate) fn load_dataset(file: &Path) -> (Vec<PathBuf>, Vec<BadRow>) {
    let bad = |mistake: Diagnostic| BadRow { is_task_folder: false, ..bad_row(file, mistake) };
    let whole = |message: String| vec![bad(Diagnostic { key: None, line: None, message })];
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => return (Vec::new(), whole(format!("cannot be read: {error}"))),
    };
    let manifest = match read_manifest(&text) {
        Ok(manifest) => manifest,
        Err(mistakes) => return (Vec::new(), mistakes.into_iter().map(bad).collect()),
    };
    let parent = file.parent().map(Path::to_path_buf).unwrap_or_default();
    let parent = if parent.as_os_str().is_empty() { PathBuf::from(".") } else { parent };
    let mut wrong = Vec::new();
    for one in &manifest.files {
        let path = parent.join(&one.path);
        match fs::read(&path) {
            Err(error) => {
                wrong.extend(whole(format!("cannot read the listed file {}: {error}", one.path)))
            }
            Ok(bytes) => {
                let found = format!("sha256:{}", sha256_hex(&bytes));
                if one.digest.as_ref().is_some_and(|digest| *digest != found) {
                    wrong.extend(whole(format!(
                        "{}: its digest is {found}, which differs from the listed digest",
                        one.path
                    )));
                }
            }
        }
    }
    let known: BTreeMap<String, PathBuf> = find_task_folders(&parent, MAX_SEARCH_DEPTH)
        .into_iter()
        .filter_map(|folder| Some((read_task_name(&folder)?, folder)))
        .collect();
    let mut found = Vec::new();
    for task in &manifest.tasks {
        let short = task.name.rsplit('/').next().unwrap_or(&task.name);
        let at = |what: String| {
            let mistake = Diagnostic { key: None, line: task.line, message: what };
            BadRow { id: Some(task.name.clone()), ..bad_row(file, mistake) }
        };
        let Some(folder) = known.get(&task.name).or_else(|| known.get(short)) else {
            let what =
                "its folder is missing; `harbor download` puts it next to dataset.toml".to_owned();
            wrong.push(at(what));
            continue;
        };
        let digest = Folder::open(folder).map_err(|error| error.to_string());
        match digest.and_then(|folder| folder.digest()) {
            Ok(digest) if digest == task.digest => found.push(folder.clone()),
            Ok(digest) => {
                wrong.push(at(format!(
                    "the digest of {} is {digest}, which differs from the listed digest",
                    folder.display()
                )));
            }
            Err(why) => wrong.push(at(why)),
        }
    }
    (found, wrong)
}

/// Returns the task's name from the folder's `task.toml`, or else the folder's name.
fn read_task_name(folder: &Path) -> Option<String> {
    let text = fs::read_to_string(folder.join(TASK_FILE)).ok()?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let value: Option<Value> = toml::from_str(text).ok();
    let named = value.as_ref().and_then(|value| value.get("task")?.get("name")?.as_str());
    match named {
        Some(name) => Some(name.to_owned()),
        None => Some(folder.file_name()?.to_string_lossy().into_owned()),
    }
}

fn bad_row(file: &Path, diagnostic: Diagnostic) -> BadRow {
    let Diagnostic { key, line, message: what } = diagnostic;
    BadRow {
        file: file.to_owned(),
        line,
        row: None,
        field: key,
        id: None,
        message: what,
        is_task_folder: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strip_canary_lines_drops_only_leading_lines() {
        for (text, left) in [
            ("<!-- harbor-canary GUID x -->\n# BENCHMARK CANARY\n\n\nDo it.\n", "Do it.\n"),
            ("# Title\n# canary\n", "# Title\n# canary\n"),
            ("\n\nDo it.", "Do it."),
            ("canary\nDo it.", "canary\nDo it."),
            ("# canary", ""),
        ] {
            assert_eq!(strip_canary_lines(text), left, "{text:?}");
        }
    }
}
