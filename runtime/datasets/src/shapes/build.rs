//! Builds a task from a row as its shape describes.

use std::collections::BTreeMap;

use proctor_patch::Patch;
use proctor_types::{
    Benchmark, Details, Environment, TASK_SCHEMA_VERSION, Task, TaskId, Timeouts, file_from_test_id,
};
use serde_json::{Map, Value};

use super::{
    commands,
    draft::TaskDraft,
    fea_bench, featurebench,
    fields::{NamedValue, RowFields},
    image, pytest_words,
    shape::{Directives, HiddenTests, PatchPolarity, Shape, ShapeModule, TestMatching},
    statement,
};
use crate::{address::AddressOptions, errors::RowError, rules};

/// Where a row comes from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Provenance {
    pub split: Option<String>,
    pub revision: Option<String>,
    /// The row's key in an object keyed by id.
    pub key: Option<String>,
}

/// Builds a task from a row.
pub(crate) fn build_task(
    row: Map<String, Value>,
    shape: &Shape,
    options: &AddressOptions,
    provenance: &Provenance,
) -> Result<Task, Vec<RowError>> {
    let one = |complaint| vec![complaint];
    let fields = RowFields::new(row, shape).map_err(one)?;
    let draft = draft_task(fields, options, provenance).map_err(one)?;
    let used = draft.fields.taken_fields.clone();
    let task = finish_task(draft, provenance).map_err(one)?;
    let mut complaints = rules::check_task(&task);
    if complaints.is_empty() {
        return Ok(task);
    }
    // In the errors, replace Proctor's field names with the row's field names, which the user
    // knows.
    for complaint in &mut complaints {
        let Some(field) = complaint.field.take() else { continue };
        let field = field.strip_prefix(rules::DETAILS_PREFIX).unwrap_or(&field);
        complaint.field = Some(used.get(field).map_or(field, String::as_str).to_owned());
    }
    Err(complaints)
}

fn draft_task<'a>(
    mut fields: RowFields<'a>,
    options: &'a AddressOptions,
    provenance: &Provenance,
) -> Result<TaskDraft<'a>, RowError> {
    let shape = fields.shape;
    let id = match fields.take_text("id")? {
        Some(id) => id,
        None => provenance.key.clone().ok_or_else(|| fields.missing_error("id"))?,
    };
    let repo = fields.take_text("repo")?.unwrap_or_default();
    let mut details = fields.take_details();
    let mut clone = None;
    if shape.module == ShapeModule::FeaBench {
        clone = fea_bench::complete_row(&mut fields, &mut details, &repo, options)?;
    }
    // The blocked URLs are derived from OWNER/NAME. With a URL in this field, nothing would be
    // blocked.
    if repo.contains("://") || repo.starts_with("git@") {
        return Err(RowError::invalid_field(
            "repo",
            format!("is {repo:?}; use OWNER/NAME, not a URL"),
        ));
    }
    let f2p =
        fields.take_list("fail_to_pass")?.ok_or_else(|| fields.missing_error("fail_to_pass"))?;
    let p2p = fields.take_list("pass_to_pass")?.unwrap_or_default();
    let f2p = distinct_ids(f2p, &[]);
    let p2p = distinct_ids(p2p, &f2p);
    let patch = fields.take_text("patch")?.filter(|patch| !patch.trim().is_empty());
    let gold = fields.take_text("gold")?.filter(|gold| !gold.trim().is_empty());
    let test_patch = fields.take_text("test_patch")?.filter(|patch| !patch.trim().is_empty());
    let needs = |field: &str| shape.needs.iter().any(|needed| needed == field);
    if test_patch.is_none() && needs("test_patch") {
        return Err(fields.missing_error("test_patch"));
    }
    let statement = statement::build_statement(&mut fields, options)?;
    let (mask, gold) = match shape.polarity {
        PatchPolarity::Solution => (None, patch.or(gold)),
        PatchPolarity::Corruption => (patch, gold),
    };
    // Tasks of FeatureBench's level 2 have neither a mask nor a gold patch. FeatureBench's module
    // checks its own rows.
    if mask.is_none() && gold.is_none() && shape.module != ShapeModule::FeatureBench {
        return Err(fields.missing_error("patch"));
    }
    let hidden = match shape.hide {
        HiddenTests::Nothing => Vec::new(),
        HiddenTests::FailToPass => distinct_test_files(&f2p),
    };
    let names = image::ImageVariables { id: &id, repo: &repo, image: "" };
    let workdir = image::fill_template(&shape.workdir, &names);
    let task = Task {
        schema_version: TASK_SCHEMA_VERSION,
        id: TaskId::new(id),
        repo: Some(repo).filter(|repo| !repo.is_empty()),
        level: None,
        statement,
        environment: Environment::default(),
        source: None,
        workdir,
        mask,
        hidden,
        blocked_urls: Vec::new(),
        fail_to_pass: f2p,
        pass_to_pass: p2p,
        test_command: Vec::new(),
        test_patch,
        timeouts: Timeouts { grade_seconds: shape.tests.seconds, ..Timeouts::default() },
        gold,
        env: BTreeMap::new(),
        user: None,
        platform: None,
        resources: None,
        cheats: Vec::new(),
        impossible: None,
        clock: None,
        categories: Vec::new(),
        meets_minima: None,
        created_at: None,
        details: Default::default(),
        from_scratch: None,
        test_results: None,
        benchmark: None,
        harbor: None,
        from_image: Default::default(),
    };
    Ok(TaskDraft { task, details, clone, fields, options })
}

fn finish_task(mut draft: TaskDraft<'_>, provenance: &Provenance) -> Result<Task, RowError> {
    let shape = draft.fields.shape;
    let bin = set_environment(&mut draft)?;
    set_tests(&mut draft, &bin)?;
    match shape.module {
        ShapeModule::FeatureBench => featurebench::finish_draft(&mut draft)?,
        ShapeModule::FeaBench => fea_bench::add_source(&mut draft)?,
        ShapeModule::Commands => move_parser_code(&mut draft.details),
        ShapeModule::None => {}
    }
    let TaskDraft { mut task, mut details, mut fields, .. } = draft;
    if let Some(repo) = &task.repo {
        task.blocked_urls.push(format!("https://github.com/{repo}"));
        task.blocked_urls.push(format!("https://github.com/{repo}/**"));
    }
    if let Some(categories) = fields.take_list("categories")? {
        task.categories = categories;
    }
    let matching = match shape.matching {
        TestMatching::Ids => "ids",
        TestMatching::Files => "files",
    };
    details.matching = matching.to_owned().into();
    let (row, left_out) = fields.into_unused_fields();
    if !row.is_empty() {
        details.row = row.into();
    }
    if !left_out.is_empty() {
        details.row_left_out = left_out.into();
    }
    task.benchmark = Some(Benchmark {
        name: shape.name.clone(),
        version: shape.version.clone(),
        split: provenance.split.clone(),
        revision: provenance.revision.clone(),
        details,
    });
    Ok(task)
}

/// Sets the task's environment. Returns the directory of the environment's `python` and `pytest`.
fn set_environment(draft: &mut TaskDraft<'_>) -> Result<String, RowError> {
    let shape = draft.fields.shape;
    let given = draft.fields.take_text("image")?;
    let (id, repo) = (draft.task.id.as_str(), draft.task.repo.as_deref().unwrap_or_default());
    let derived = image::resolve_image(given.as_deref(), &shape.image, id, repo);
    let environment = &mut draft.task.environment;
    let mut bin = shape.tests.bin.clone();
    if let Some(base) = &draft.options.base_image {
        if shape.image.setup.is_empty() && draft.options.setup.is_none() {
            let what =
                format!("{} needs setup commands for `base={base}`: `setup=FILE`", shape.name);
            return Err(RowError::invalid_row(what));
        }
        environment.base = Some(base.clone());
        environment.setup.clone_from(&shape.image.setup);
        bin = shape.image.setup_bin.clone().unwrap_or(bin);
    } else if let Some(template) = &draft.options.image {
        let image = derived.as_deref().unwrap_or_default();
        environment.image =
            Some(image::fill_template(template, &image::ImageVariables { id, repo, image }));
    } else {
        environment.image = Some(derived.ok_or_else(|| draft.fields.missing_error("image"))?);
        environment.setup.clone_from(&shape.image.prepare);
        environment
            .setup
            .extend(shape.image.prepare_by_repo.get(repo).into_iter().flatten().cloned());
    }
    if let Some(setup) = &draft.options.setup {
        environment.setup.clone_from(setup);
    }
    let bin = draft.options.bin_dir.clone().unwrap_or(bin);
    if !bin.is_empty() {
        let path = format!("{bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        draft.task.env.insert("PATH".into(), path);
    }
    Ok(bin)
}

/// Sets how the tests run.
fn set_tests(draft: &mut TaskDraft<'_>, bin: &str) -> Result<(), RowError> {
    let shape = draft.fields.shape;
    let repo = draft.task.repo.clone().unwrap_or_default();
    let version = draft.details.version.non_empty_text().unwrap_or_default();
    let by_repo = shape.tests.for_repo(&repo, version);
    let test_files = match &draft.task.test_patch {
        Some(patch) if shape.matching == TestMatching::Ids => {
            let names = Patch::parse(patch.as_bytes()).paths().into_iter();
            names.map(|name| String::from_utf8_lossy(name.as_bytes()).into_owned()).collect()
        }
        _ => distinct_test_files(&draft.task.fail_to_pass),
    };
    let rule = by_repo.and_then(|by| by.directives).unwrap_or(shape.tests.directives);
    let directives = match rule {
        Directives::Expected => expected_files(&draft.task),
        rule => commands::test_directives(&test_files, rule),
    };
    let said = draft.fields.take_field("test_command").map(|found| found.value);
    let script = draft.details.eval_script.get().map(String::as_str);
    let of_script = script.filter(|_| said.is_none());
    let said = match of_script {
        Some(script) => commands::command_in_script(script, &directives).map(Value::from),
        None => said,
    };
    if said.is_none() && of_script.is_none() && by_repo.is_some_and(|by| by.needs_command) {
        let what = format!(
            "is missing, and {repo} has no known test command: use the rows of {} {}",
            shape.name,
            shape.version.as_deref().unwrap_or_default()
        );
        return Err(RowError::invalid_field("eval_script", what));
    }
    let command = commands::select_command(said.as_ref(), &shape.tests, by_repo);
    let words = commands::command_words(&command, bin);
    if let Some(script) = of_script.filter(|_| words.is_empty()) {
        return Err(RowError::invalid_field("eval_script", commands::no_command_error(script)));
    }
    let task = &mut draft.task;
    let tests = test_files.iter().chain(&task.fail_to_pass).chain(&task.pass_to_pass);
    task.test_command = pytest_words::remove_tests(words, tests).map_err(RowError::invalid_row)?;
    draft.details.test_cmd = command.into();
    let parser = match draft.fields.take_field("log_parser") {
        Some(NamedValue { value: Value::String(name), .. }) if !name.is_empty() => name,
        _ => by_repo.and_then(|by| by.parser.clone()).unwrap_or_else(|| shape.tests.parser.clone()),
    };
    draft.details.log_parser = parser.into();
    draft.details.test_files = test_files.into();
    draft.details.test_directives = directives.into();
    Ok(())
}

/// Moves a log parser's source code to its own key, so that the code is not mistaken for a parser's
/// name. Proctor never runs the code.
fn move_parser_code(details: &mut Details) {
    if details.log_parser.non_empty_text().is_some_and(|text| text.contains('\n')) {
        details.log_parser_code = std::mem::take(&mut details.log_parser);
    }
}

/// Returns the ids in order, without duplicates and without those in `excluded_ids`.
fn distinct_ids(ids: Vec<String>, excluded_ids: &[String]) -> Vec<String> {
    let mut seen: std::collections::HashSet<&str> =
        excluded_ids.iter().map(String::as_str).collect();
    let keep: Vec<bool> = ids.iter().map(|id| seen.insert(id)).collect();
    ids.iter().zip(keep).filter(|(_, keep)| *keep).map(|(id, _)| id.clone()).collect()
}

/// Returns the files of the fail-to-pass and pass-to-pass tests, in the order in which harnesses
/// that ignore the test patch run them.
fn expected_files(task: &Task) -> Vec<String> {
    let sorted = |ids: &[String]| {
        let mut files = distinct_test_files(ids);
        files.sort_unstable();
        files
    };
    [sorted(&task.fail_to_pass), sorted(&task.pass_to_pass)].concat()
}

/// Returns the files of test ids, in order, without duplicates.
fn distinct_test_files(ids: &[String]) -> Vec<String> {
    let files = ids.iter().map(|id| file_from_test_id(id).to_owned());
    distinct_ids(files.collect(), &[])
}
