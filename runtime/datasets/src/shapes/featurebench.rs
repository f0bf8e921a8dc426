//! Converts FeatureBench rows. The last part of an id is the level, tests are whole files, and the
//! agent starts from an empty directory at level 2.

use std::collections::BTreeMap;

use proctor_types::FromScratch;
use serde_json::{Number, Value};

use super::draft::TaskDraft;
use crate::errors::RowError;

/// The only file in the agent's directory at level 2.
const README: &str = include_str!("../../../../prompts/featurebench/readme.md");

/// The command that the harness uses to install the agent's work at level 2.
const INSTALL_COMMAND: &str = "pip install .";

/// Seconds per file, if the row has no limit.
const DEFAULT_FILE_SECONDS: f64 = 600.0;

/// Proxy variables for the harness's network, which are dropped because Proctor uses its own
/// network.
const PROXY_VARIABLES: [&str; 4] = ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"];

pub(super) fn finish_draft(draft: &mut TaskDraft<'_>) -> Result<(), RowError> {
    let level = match draft.task.id.as_str().rsplit('.').next() {
        Some("lv1") => 1,
        Some("lv2") => 2,
        _ => {
            let what = "does not end in `.lv1` or `.lv2`, so its level is unknown";
            return Err(RowError::invalid_field("instance_id", what));
        }
    };
    let task = &mut draft.task;
    task.level = Some(level);
    let p2p_files = task.pass_to_pass.clone();
    let files = task.fail_to_pass.iter().chain(&p2p_files);
    let files: Vec<String> = files.map(|file| relative_path(file)).collect();
    for ids in [&mut task.fail_to_pass, &mut task.pass_to_pass] {
        for file in ids.iter_mut() {
            *file = relative_path(file);
        }
    }
    let details = &mut draft.details;
    let file_seconds = details.timeout_run.get().and_then(Number::as_f64);
    let file_seconds =
        file_seconds.filter(|seconds| *seconds > 0.0).unwrap_or(DEFAULT_FILE_SECONDS);
    task.timeouts.grade_seconds = file_seconds * files.len() as f64;
    details.p2p_files = task.pass_to_pass.clone().into();
    details.test_directives = files.into();
    details.test_files = task.fail_to_pass.clone().into();
    if level == 1 {
        if task.mask.is_none() {
            return Err(RowError::invalid_field(
                "patch",
                "is missing, but level 1 needs it to remove the feature",
            ));
        }
        // The row's test patch deletes the test file; Proctor hides it instead. Grading restores
        // deleted files from the pristine tree.
        task.hidden.clone_from(&task.fail_to_pass);
        task.test_patch = None;
        details.test_patch_deletes = true.into();
    } else {
        if task.test_patch.is_none() {
            let what = "is missing, so level 2 would grade the library itself";
            return Err(RowError::invalid_field("test_patch", what));
        }
        task.mask = None;
        details.test_patch_deletes = false.into();
        task.from_scratch = Some(FromScratch {
            files: BTreeMap::from([("README.md".to_owned(), README.to_owned())]),
            install: INSTALL_COMMAND.to_owned(),
        });
    }
    apply_repo_settings(draft);
    Ok(())
}

/// Applies the sandbox and network settings in `repo_settings`.
fn apply_repo_settings(draft: &mut TaskDraft<'_>) {
    let fields = &mut draft.fields;
    let links = fields.take_by_name("repo_settings.black_links");
    for link in links.iter().flat_map(|links| links.as_array()).flatten().filter_map(Value::as_str)
    {
        let link = link.trim_end_matches('/');
        draft.task.blocked_urls.push(link.to_owned());
        draft.task.blocked_urls.push(format!("{link}/**"));
    }
    let run = "repo_settings.docker_specs.run_args";
    let wants = fields
        .take_by_name(&format!("{run}.cuda_visible_num"))
        .or_else(|| fields.take_by_name(&format!("{run}.cuda_visible_devices")));
    let wants = match wants {
        Some(Value::Number(number)) => number.as_i64().is_some_and(|number| number > 0),
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(list)) => !list.is_empty(),
        _ => false,
    };
    if wants {
        let once =
            fields.take_by_name(&format!("{run}.number_once")).and_then(|number| number.as_u64());
        draft.details.gpus = once.filter(|once| *once > 0).unwrap_or(1).into();
    }
    let arguments = fields.take_by_name("repo_settings.docker_specs.custom_docker_args");
    for argument in
        arguments.iter().flat_map(|list| list.as_array()).flatten().filter_map(Value::as_str)
    {
        let pair = argument.strip_prefix("-e ").or_else(|| argument.strip_prefix("-ee "));
        if let Some((name, value)) = pair.and_then(|pair| pair.split_once('='))
            && !PROXY_VARIABLES.contains(&name.trim())
        {
            draft.task.env.insert(name.trim().to_owned(), value.to_owned());
        }
    }
}

/// Makes a path relative to the work directory. Some rows use absolute paths.
fn relative_path(file: &str) -> String {
    file.strip_prefix("/testbed/").unwrap_or(file).trim_start_matches("./").to_owned()
}
