//! Reads rows from files one at a time, so that a dataset is never in memory twice.

mod json;
mod jsonl;
mod parquet;
mod raw_row;
mod scan;

use std::{fs::File, io::Read, path::Path};

pub(crate) use raw_row::RawRow;

use crate::DatasetError;

/// Passes every row of a file to `on_row`, in order. The content determines the format; the file
/// name matters only if the content is ambiguous.
///
/// # Errors
/// The whole file is unusable.
pub(crate) fn read_rows(file: &Path, on_row: &mut dyn FnMut(RawRow)) -> Result<(), DatasetError> {
    let unreadable = |why: String| DatasetError::Unreadable { file: file.to_path_buf(), why };
    let open = || File::open(file).map_err(|error| unreadable(error.to_string()));
    let content = detect_format(open()?).map_err(|error| unreadable(error.to_string()))?;
    match (content, file_suffix(file)) {
        (FileFormat::Parquet, _) | (FileFormat::Other, "parquet") => {
            parquet::read_rows(open()?, on_row).map_err(unreadable)
        }
        (_, "json") => {
            let mut bytes = Vec::new();
            open()?.read_to_end(&mut bytes).map_err(|error| unreadable(error.to_string()))?;
            json::read_rows(&bytes, on_row);
            Ok(())
        }
        (_, "jsonl") | (FileFormat::Json, _) => {
            jsonl::read_rows(open()?, on_row).map_err(|error| unreadable(error.to_string()))
        }
        _ => Err(DatasetError::UnknownKind { file: file.to_path_buf() }),
    }
}

/// The format of a file according to its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileFormat {
    Parquet,
    Json,
    Other,
}

fn detect_format(file: File) -> std::io::Result<FileFormat> {
    let mut head = Vec::new();
    file.take(4096).read_to_end(&mut head)?;
    if head.starts_with(b"PAR1") {
        return Ok(FileFormat::Parquet);
    }
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head);
    Ok(match text.trim_ascii_start().first() {
        Some(b'{' | b'[') => FileFormat::Json,
        _ => FileFormat::Other,
    })
}

/// Passes every row of JSON in any form to `on_row`, whatever the file name.
pub(crate) fn read_json_rows(
    file: &Path,
    on_row: &mut dyn FnMut(RawRow),
) -> Result<(), DatasetError> {
    let unreadable = |error: std::io::Error| DatasetError::Unreadable {
        file: file.to_path_buf(),
        why: error.to_string(),
    };
    if file_suffix(file) == "jsonl" {
        return jsonl::read_rows(File::open(file).map_err(unreadable)?, on_row).map_err(unreadable);
    }
    json::read_rows(&std::fs::read(file).map_err(unreadable)?, on_row);
    Ok(())
}

/// Returns the file name's suffix.
pub(crate) fn file_suffix(file: &Path) -> &str {
    file.extension().and_then(|extension| extension.to_str()).unwrap_or_default()
}
