//! Checks the rules for tasks that the types cannot express. `proctor-patch` checks the syntax of
//! the patches.

use std::{collections::BTreeSet, ops::RangeInclusive};

use proctor_official::OfficialPolicy;
use proctor_patch::Patch;
use proctor_types::{
    MAX_CPUS, MAX_SECONDS, MAX_SIZE_MB, MIN_CPUS, MIN_MEMORY_MB, ResourceAmount, Source, Task,
    TestResults, parse_clock_time,
};
use serde_json::Value;

use crate::errors::{RowError, nearest_key};

/// The prefix of a benchmark row's fields in a task.
pub(crate) const DETAILS_PREFIX: &str = "benchmark.details.";

pub(crate) fn check_task(task: &Task) -> Vec<RowError> {
    let mut out = Vec::new();
    let mut complain = |field: &str, what: String| out.push(RowError::invalid_field(field, what));
    if task.id.as_str().trim().is_empty() {
        complain("id", "is empty".into());
    }
    if task.statement.trim().is_empty() {
        complain("statement", "is empty, so the agent would get no instructions".into());
    }
    let environment = &task.environment;
    let given = [
        ("image", environment.image.is_some()),
        ("dockerfile", environment.dockerfile.is_some()),
        ("base", environment.base.is_some()),
    ];
    let given: Vec<&str> = given.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
    match given.as_slice() {
        [_] => {}
        [] => complain("environment", "needs `image`, `dockerfile`, or `base = \"host\"`".into()),
        [one, other, ..] => {
            complain("environment", format!("has both `{one}` and `{other}`; keep one"));
        }
    }
    if let Some(dockerfile) = &environment.dockerfile
        && dockerfile.trim().is_empty()
    {
        complain(
            "environment.dockerfile",
            "is empty; set it to the folder of a build context".into(),
        );
    }
    // An empty path means the image's work directory.
    let of_image = task.workdir.is_empty() && environment.base.is_none();
    if let Some(what) = check_absolute_path(&task.workdir).err().filter(|_| !of_image) {
        complain("workdir", what);
    }
    for path in &task.hidden {
        if let Err(what) = check_relative_path(path) {
            complain("hidden", format!("{path:?} {what}"));
        }
    }
    match task.test_command.first().map(|program| program.trim()) {
        None => complain("test_command", "is empty".into()),
        Some("") => {
            complain("test_command", "starts with an empty string instead of a program".into())
        }
        Some(_) => {}
    }
    if let Some(platform) = &task.platform
        && !is_platform(platform)
    {
        complain("platform", format!("{platform:?} is not a platform such as linux/amd64"));
    }
    if task.fail_to_pass.is_empty() {
        complain("fail_to_pass", "is empty, so the task could never be resolved".into());
    }
    check_ids(task, &mut complain);
    // An unknown benchmark is only reported when a run is planned, because some commands just show
    // tasks.
    if let Ok(Some(policy)) = OfficialPolicy::for_task(task)
        && let Err((key, error)) = policy.check_named_parser(task)
    {
        let named = task.details().and_then(|details| key.value_in(details));
        let named = named.as_ref().and_then(Value::as_str).unwrap_or_default();
        let near = nearest_key(named, policy.parser_names()).filter(|near| *near != named);
        let hint = near.map_or(error.hint, |near| format!("did you mean `{near}`?"));
        complain(&format!("{DETAILS_PREFIX}{}", key.key()), format!("{}; {hint}", error.message));
    }
    for (field, seconds) in [
        ("timeouts.command_seconds", task.timeouts.command_seconds),
        ("timeouts.grade_seconds", task.timeouts.grade_seconds),
    ] {
        if !(seconds > 0.0 && seconds <= MAX_SECONDS) {
            let within = format!("it must be above 0 and up to {MAX_SECONDS} seconds");
            complain(field, format!("is {seconds}, but {within}"));
        }
    }
    if let Some(source) = &task.source {
        check_source(source, &mut complain);
    }
    for (field, patch) in
        [("mask", &task.mask), ("gold", &task.gold), ("test_patch", &task.test_patch)]
    {
        if patch.as_ref().is_some_and(|patch| patch.trim().is_empty()) {
            complain(field, "is empty; remove the key".into());
        }
    }
    check_cheats(task, &mut complain);
    check_results(task, &mut complain);
    // A missing gold or mask patch is not an error, because benchmarks do not publish all
    // solutions. Features that need one (an arm with `gold`, a validation) reject the task.
    if let Some(resources) = &task.resources {
        let (cpus, memory) = (MIN_CPUS..=MAX_CPUS, MIN_MEMORY_MB..=MAX_SIZE_MB);
        check_resource_bounds(resources.cpus, cpus, "resources.cpus", &mut complain);
        check_resource_bounds(resources.memory_mb, memory, "resources.memory_mb", &mut complain);
    }
    if let Some(clock) = &task.clock
        && parse_clock_time(clock).is_none()
    {
        let what = "is not a time between 1971 and 2199, such as 2024-05-01T00:00:00Z";
        complain("clock", format!("{clock:?} {what}"));
    }
    for key in task.env.keys() {
        if key.is_empty() || key.contains(['=', '\0']) {
            complain("env", format!("{key:?} is not a variable name"));
        }
    }
    out
}

/// Whether the text is `OS/ARCHITECTURE`, optionally followed by a variant.
fn is_platform(text: &str) -> bool {
    let of_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let parts: Vec<&str> = text.split('/').collect();
    (2..=3).contains(&parts.len())
        && parts.iter().all(|part| !part.is_empty() && part.chars().all(of_name))
}

fn check_ids(task: &Task, report: &mut impl FnMut(&str, String)) {
    let mut seen = BTreeSet::new();
    for (field, ids) in [("fail_to_pass", &task.fail_to_pass), ("pass_to_pass", &task.pass_to_pass)]
    {
        for id in ids {
            // Don't check the form of the ids. Each benchmark has its own: files, Django's ids,
            // sympy's bare names.
            if task.benchmark.is_some() {
                if id.trim().is_empty() {
                    report(field, "contains an empty id".into());
                }
                continue;
            }
            // A report can contain any text as a test id.
            if task.command_test_results().is_some() {
                if id.trim().is_empty() {
                    report(field, "contains an empty id".into());
                } else if !seen.insert(id) {
                    report(field, format!("duplicate {id:?}"));
                }
                continue;
            }
            // A node id consists of a file, `::` and names. Parameters in brackets may contain
            // anything.
            match id.split_once("::") {
                Some((file, name)) if !name.is_empty() => {
                    if let Err(what) = check_relative_path(file) {
                        report(field, format!("{id:?}: its file {what}"));
                    }
                }
                _ => {
                    report(field, format!("{id:?} is not a pytest node id such as `file.py::name`"))
                }
            }
            if !seen.insert(id) {
                report(field, format!("duplicate {id:?}"));
            }
        }
    }
}

fn check_results(task: &Task, report: &mut impl FnMut(&str, String)) {
    if task.command_test_results().is_some() && task.from_scratch.is_some() {
        let what = "cannot be used with `from_scratch`, which only pytest can grade";
        report("test_results", what.into());
    }
    let Some(TestResults { format, path: Some(path) }) = &task.test_results else { return };
    let field = "test_results.path";
    if task.command_test_results().is_none() {
        report(
            field,
            format!("has no effect with {format}, which reports to Proctor directly; remove it"),
        );
        return;
    }
    let checked = match path.starts_with('/') {
        true => check_absolute_path(path),
        false => check_relative_path(path),
    };
    if let Err(what) = checked {
        report(field, format!("{path:?}: {what}"));
    } else if path.ends_with('/') {
        report(
            field,
            format!("{path:?} is a folder; use the report's file name, such as {path}*.xml"),
        );
    } else if path.rsplit_once('/').is_some_and(|(folder, _)| folder.contains('*')) {
        report(
            field,
            format!("{path:?} has a `*` in a folder name; only the file name may have one"),
        );
    }
}

/// Checks that every cheat changes something and has a unique name. Otherwise an empty cheat would
/// count as defeated, and two cheats with the same name would count as one.
fn check_cheats(task: &Task, report: &mut impl FnMut(&str, String)) {
    let mut names = BTreeSet::new();
    for (at, cheat) in task.cheats.iter().enumerate() {
        let name = cheat.name.trim();
        if name.is_empty() {
            report(&format!("cheats[{at}].name"), "is empty".into());
        } else if !names.insert(name) {
            report(&format!("cheats[{at}].name"), format!("duplicate {name:?}"));
        }
        match Patch::parse(cheat.patch.as_bytes()).touched_paths() {
            Ok(paths) if paths.is_empty() => {
                report(&format!("cheats[{at}].patch"), "is empty, so it changes no file".into());
            }
            Ok(_) => {}
            Err(error) => report(&format!("cheats[{at}].patch"), error.to_string()),
        }
    }
}

fn check_source(source: &Source, report: &mut impl FnMut(&str, String)) {
    let digest = match source {
        Source::Pypi { sha256, .. } => Some(sha256),
        Source::Archive { sha256, .. } => sha256.as_ref(),
        Source::Path { .. } | Source::Git { .. } => None,
    };
    if let Some(digest) = digest
        && !is_hex(digest, 64..=64)
    {
        report("source.sha256", format!("{digest:?} is not 64 lower-case hex digits"));
    }
    if let Source::Git { commit, .. } = source
        && !is_hex(commit, 40..=64)
    {
        report("source.commit", format!("{commit:?} is not a full commit id"));
    }
}

fn is_hex(text: &str, length: std::ops::RangeInclusive<usize>) -> bool {
    length.contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

fn check_absolute_path(path: &str) -> Result<(), String> {
    let parts = path.strip_prefix('/').ok_or_else(|| format!("{path:?} is not absolute"))?;
    if parts.is_empty() {
        return Err("is the root of the sandbox; use a folder below it".into());
    }
    check_relative_path(parts).map_err(|what| format!("{path:?} {what}"))
}

/// Checks that a path stays inside its directory.
pub(crate) fn check_relative_path(path: &str) -> Result<(), String> {
    if path.is_empty() {
        return Err("is empty".into());
    }
    if path.starts_with('/') {
        return Err("is absolute; it must be relative to `workdir`".into());
    }
    if path.split('/').any(|part| part == "..") {
        return Err("leaves its folder with `..`".into());
    }
    if path.contains('\0') {
        return Err("contains a NUL byte".into());
    }
    Ok(())
}

/// Checks that both bounds are in range, and that the minimum is not above the maximum.
fn check_resource_bounds<T: Copy + PartialOrd + std::fmt::Display>(
    amount: Option<ResourceAmount<T>>,
    bounds: RangeInclusive<T>,
    field: &str,
    report: &mut impl FnMut(&str, String),
) {
    let Some(need) = amount else { return };
    let (floor, ceiling) = (need.floor(), need.ceiling());
    if let Some(wrong) = [floor, ceiling].into_iter().find(|end| !bounds.contains(end)) {
        let (least, most) = (bounds.start(), bounds.end());
        report(field, format!("is {wrong}, but must be from {least} to {most}"));
    } else if floor > ceiling {
        report(field, format!("has a floor of {floor} above its ceiling of {ceiling}"));
    }
}
