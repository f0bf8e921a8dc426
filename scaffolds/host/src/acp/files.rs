//! The client's `fs/*` methods, which read and write files in the task's sandbox.

use proctor_scaffold_api::Session;
use proctor_types::sha256_hex;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    actions::{ActionResult, CallRecorder, check_path},
    limits::Limits,
    rpc::{INVALID_PARAMS, RpcError},
};

/// The protocol's error code if a resource does not exist.
const NOT_FOUND: i64 = -32002;

#[derive(Debug, Deserialize)]
pub(super) struct ReadParams {
    path: String,
    /// The first line to read, counted from 1.
    #[serde(default)]
    line: Option<usize>,
    /// The maximum number of lines to read.
    #[serde(default)]
    limit: Option<usize>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WriteParams {
    path: String,
    content: String,
}

pub(super) async fn read_file(
    session: &mut dyn Session,
    id: &str,
    params: ReadParams,
    limits: &Limits,
) -> ActionResult {
    let path = match check_path(session.brief(), &params.path) {
        Ok(path) => path,
        Err(error) => return Ok(Err(error)),
    };
    let mut arguments = json!({ "path": params.path });
    for (key, value) in [("line", params.line), ("limit", params.limit)] {
        if let Some(value) = value {
            arguments[key] = value.into();
        }
    }
    let recorded = CallRecorder::begin(session, id, "fs/read_text_file", arguments).await?;
    let bytes = match session.sandbox().read(&path, limits.file_bytes).await {
        Ok(bytes) => bytes,
        Err(error) => return recorded.finish_rejected(session, error, NOT_FOUND).await,
    };
    let shown = format!("{} bytes, sha256 {}", bytes.len(), sha256_hex(&bytes));
    recorded.finish(session, shown, None, None).await?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(Ok(json!({ "content": select_lines(&text, params.line, params.limit) })))
}

fn select_lines(text: &str, first_line: Option<usize>, max_lines: Option<usize>) -> String {
    let skipped = first_line.unwrap_or(1).saturating_sub(1);
    text.split_inclusive('\n').skip(skipped).take(max_lines.unwrap_or(usize::MAX)).collect()
}

pub(super) async fn write_file(
    session: &mut dyn Session,
    id: &str,
    params: WriteParams,
    limits: &Limits,
) -> ActionResult {
    let bytes = params.content.into_bytes();
    if bytes.len() as u64 > limits.file_bytes {
        let what = format!("params: `content`: exceeds {} bytes", limits.file_bytes);
        return Ok(Err(RpcError::new(INVALID_PARAMS, what)));
    }
    let path = match check_path(session.brief(), &params.path) {
        Ok(path) => path,
        Err(error) => return Ok(Err(error)),
    };
    let arguments = json!({ "path": params.path, "bytes": bytes.len() });
    let recorded = CallRecorder::begin(session, id, "fs/write_text_file", arguments).await?;
    let owner = session.brief().user.clone();
    let written = session.sandbox().write_as(&path, &bytes, None, owner.as_deref()).await;
    if let Err(error) = written {
        return recorded.finish_rejected(session, error, NOT_FOUND).await;
    }
    let shown = format!("{} bytes, sha256 {}", bytes.len(), sha256_hex(&bytes));
    recorded.finish(session, shown, Some(bytes), None).await?;
    Ok(Ok(Value::Null))
}

#[cfg(test)]
mod tests {
    use super::select_lines;

    #[test]
    fn acp_read_supports_line_ranges() {
        let text = "one\ntwo\nthree";
        assert_eq!(select_lines(text, None, None), text);
        assert_eq!(select_lines(text, Some(2), Some(1)), "two\n");
        assert_eq!(select_lines(text, Some(0), Some(1)), "one\n");
        assert_eq!(select_lines(text, Some(3), Some(9)), "three");
        assert_eq!(select_lines(text, Some(4), None), "");
    }
}
