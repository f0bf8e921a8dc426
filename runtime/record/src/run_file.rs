//! `run.json`: the plan, with a checksum and a compressed copy.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    path::{Path, PathBuf},
};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use proctor_types::{CONFIG_VERSION, RUN_SCHEMA_VERSION, RunRecord, Task, format_error_chain};
use serde::{Deserialize, de::IgnoredAny};

use crate::{
    Corruption, RecordError, Remedy,
    disk::{self, describe_read_error},
};

const RUN_FILE: &str = "run.json";
/// The compressed copy of the plan, which is used if `run.json` is corrupt. Without the plan,
/// nothing in a run can be read.
const RUN_COPY_FILE: &str = "run.json.gz";

/// Whether a directory contains a run.
///
/// # Errors
/// Fails if the user has no permission to read the directory.
pub(crate) fn has_plan(root: &Path) -> Result<bool, RecordError> {
    for name in [RUN_FILE, RUN_COPY_FILE] {
        match std::fs::metadata(root.join(name)) {
            Ok(_) => return Ok(true),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return Err(RecordError::io(root, UNREADABLE_MESSAGE)(error));
            }
            Err(_) => {}
        }
    }
    Ok(false)
}

/// Error message for a run that another user's umask made unreadable.
const UNREADABLE_MESSAGE: &str = "no permission to read the run; ask its owner";

/// Returns the error for a directory without a plan. The error tells whether the directory never
/// contained a run, or the plan was lost.
pub(crate) fn missing_plan_error(root: PathBuf) -> RecordError {
    match has_trials(&root) {
        true => RecordError::PlanLost { path: root },
        false => RecordError::NotARun { path: root },
    }
}

/// Whether a directory contains trials. A run that was killed before its plan was written has none.
pub(crate) fn has_trials(root: &Path) -> bool {
    std::fs::read_dir(root.join("trials")).is_ok_and(|mut found| found.next().is_some())
}

pub(crate) fn write(root: &Path, run: &RunRecord) -> Result<(), RecordError> {
    let bytes = to_checksummed_json(root, run)?;
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    let packed = packed.write_all(&bytes).and_then(|()| packed.finish());
    let copy = root.join(RUN_COPY_FILE);
    let packed = packed.map_err(RecordError::io(&copy, "cannot be written"))?;
    disk::write_atomically(&copy, &packed)?;
    disk::write_atomically(&root.join(RUN_FILE), &bytes)
}

/// Returns the plan. If `run.json` is corrupt, returns the plan from the copy, and the corruption.
pub(crate) fn read(root: &Path) -> Result<(RunRecord, Option<Corruption>), RecordError> {
    let path = root.join(RUN_FILE);
    let written = disk::try_read_if_exists(&path);
    let bytes = written.as_ref().ok().and_then(Option::as_deref);
    if let Some(error) = bytes.and_then(|bytes| version_error(root, bytes)) {
        return Err(error);
    }
    let why = match written {
        Ok(Some(bytes)) => match parse_plan(&bytes) {
            Ok(run) => return check_ids(&path, run).map(|run| (run, None)),
            Err(why) => why,
        },
        Ok(None) if !root.join(RUN_COPY_FILE).exists() => {
            return Err(missing_plan_error(root.to_owned()));
        }
        Ok(None) => "missing".to_owned(),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Err(RecordError::io(&path, UNREADABLE_MESSAGE)(error));
        }
        Err(error) => describe_read_error(&error),
    };
    let copy = root.join(RUN_COPY_FILE);
    let read = match disk::try_read_if_exists(&copy) {
        Ok(packed) => packed.map(|packed| parse_plan(&decompress(&packed)?)),
        Err(error) => Some(Err(describe_read_error(&error))),
    };
    match read {
        Some(Ok(run)) => {
            let damage = Corruption::new(
                path,
                format!("{why}; using {RUN_COPY_FILE}"),
                Remedy::LostEvidence,
            );
            Ok((check_ids(&copy, run)?, Some(damage)))
        }
        other => {
            let also = match other {
                Some(Err(error)) => format!("{RUN_COPY_FILE}: {error}"),
                _ => format!("{RUN_COPY_FILE} is missing"),
            };
            let why = format!("{why}, and {also}");
            Err(RecordError::PlanDamaged { path, why, hint: RESTORE_HINT })
        }
    }
}

fn decompress(compressed_bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = GzDecoder::new(compressed_bytes).read_to_end(&mut bytes);
    read.map_err(|_| "truncated or corrupt".to_owned())?;
    Ok(bytes)
}

/// Returns the plan, and the corruption of `run.json` or its copy, if either is corrupt.
pub(crate) fn verify(root: &Path) -> Result<(RunRecord, Option<Corruption>), RecordError> {
    match read(root)? {
        (run, None) => Ok((run, check_copy(root)?)),
        damaged => Ok(damaged),
    }
}

/// Checks that the copy matches `run.json`. With a corrupt copy, the run would become unreadable if
/// `run.json` were corrupted later.
fn check_copy(root: &Path) -> Result<Option<Corruption>, RecordError> {
    let (written, copy) = (disk::read_if_exists(&root.join(RUN_FILE))?, root.join(RUN_COPY_FILE));
    let kept = match disk::try_read_if_exists(&copy) {
        Ok(packed) => packed.map(|packed| decompress(&packed)),
        Err(error) => Some(Err(describe_read_error(&error))),
    };
    let why = match kept {
        None => "missing".to_owned(),
        Some(Err(error)) => error,
        Some(Ok(bytes)) if Some(&bytes) != written.as_ref() => format!("not a copy of {RUN_FILE}"),
        Some(Ok(_)) => return Ok(None),
    };
    Ok(Some(Corruption::new(copy, why, Remedy::LostEvidence)))
}

/// Replaces a corrupt `run.json` with its copy, or a corrupt copy with `run.json`. The corrupt file
/// is kept under another name.
pub(crate) fn restore(root: &Path) -> Result<(), RecordError> {
    let (run, Some(damage)) = verify(root)? else { return Ok(()) };
    disk::move_aside(&damage.path)?;
    write(root, &run)
}

const RESTORE_HINT: &str =
    "restore one of the two files from a copy of the run directory; no trial is lost";

/// Returns pretty JSON whose last key is the BLAKE3 of the text without that key.
fn to_checksummed_json(root: &Path, run: &RunRecord) -> Result<Vec<u8>, RecordError> {
    let mut text = serde_json::to_string_pretty(run).map_err(|error| RecordError::Misuse {
        path: root.join(RUN_FILE),
        why: format!("not JSON: {error}"),
    })?;
    let sum = blake3::hash(text.as_bytes()).to_hex();
    text.truncate(text.len() - JSON_OBJECT_END.len());
    Ok(format!("{text},\n  \"sum\": \"{sum}\"\n}}\n").into_bytes())
}

/// The end of a pretty-printed JSON object.
const JSON_OBJECT_END: &str = "\n}";

fn parse_plan(bytes: &[u8]) -> Result<RunRecord, String> {
    let text = verify_checksum(bytes)?;
    serde_json::from_slice(&text)
        .map_err(|error| format!("cannot be parsed: {}", format_error_chain(&error)))
}

/// The versions in a plan. These fields can be read even if the rest of the plan is unreadable.
#[derive(Deserialize)]
struct PlanVersions {
    schema_version: u64,
    #[serde(default)]
    config_version: u64,
    #[serde(default)]
    proctor: String,
    #[serde(default)]
    sum: Option<IgnoredAny>,
}

/// Returns the error for a plan from another version. A plan with a wrong checksum is corrupt, no
/// matter which version it contains. Plans of the first version had no checksum.
fn version_error(root: &Path, bytes: &[u8]) -> Option<RecordError> {
    let text = verify_checksum(bytes);
    let plan: PlanVersions = serde_json::from_slice(text.as_deref().unwrap_or(bytes)).ok()?;
    if text.is_err() && plan.sum.is_some() {
        return None;
    }
    let PlanVersions { schema_version: schema, config_version: version, proctor, .. } = plan;
    let path = root.to_owned();
    if schema != u64::from(RUN_SCHEMA_VERSION) {
        return Some(RecordError::UnsupportedVersion { path, schema, proctor });
    }
    let is_newer = version > u64::from(CONFIG_VERSION);
    is_newer.then_some(RecordError::NewerConfig { path, version, proctor })
}

/// Verifies the checksum and returns the text without it.
fn verify_checksum(bytes: &[u8]) -> Result<Vec<u8>, String> {
    const CHECKSUM_FIELD_BYTES: usize = ",\n  \"sum\": \"\"\n}\n".len() + 64;
    if bytes.is_empty() {
        return Err("empty".into());
    }
    let no_sum = || "no checksum at the end".to_owned();
    let at = bytes.len().checked_sub(CHECKSUM_FIELD_BYTES).ok_or_else(no_sum)?;
    let (body, tail) = bytes.split_at(at);
    let claimed =
        tail.strip_prefix(b",\n  \"sum\": \"").and_then(|tail| tail.strip_suffix(b"\"\n}\n"));
    let claimed = claimed.ok_or_else(no_sum)?;
    let text = [body, JSON_OBJECT_END.as_bytes()].concat();
    if blake3::hash(&text).to_hex().as_bytes() != claimed {
        return Err("checksum mismatch".into());
    }
    Ok(text)
}

/// Returns the plan if its arms and tasks match their ids and digests.
fn check_ids(path: &Path, run: RunRecord) -> Result<RunRecord, RecordError> {
    let arms = run.arms.iter().filter(|arm| (*arm).clone().with_computed_id().id != arm.id);
    let arms = arms.map(|arm| format!("the arm {} does not match its id", arm.name));
    let tasks = run.tasks.iter().filter(|named| Task::digest(&named.task) != named.digest);
    let tasks = tasks.map(|named| format!("the task {} does not match its digest", named.task.id));
    match arms.chain(tasks).next() {
        None => Ok(run),
        Some(why) => Err(RecordError::PlanDamaged {
            path: path.to_owned(),
            why: format!("{why} (written by Proctor {})", run.proctor),
            hint: "read it with the version of Proctor that wrote it, or restore it from a copy",
        }),
    }
}
