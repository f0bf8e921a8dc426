//! Forms of paths in a work directory, and relations between them.

use proctor_sandbox_api::wire::RawPath;
pub(crate) use proctor_types::file_from_test_id;

/// Converts a task's path to the form used here: escaped, without a leading `./`.
pub(crate) fn escape_task_path(path: &str) -> String {
    RawPath::from_task_path(path).to_escaped()
}

/// The folder of a path; empty for an entry directly in the work directory.
pub(crate) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Returns an absolute path without `.` and `..` parts. Does not resolve links.
pub(crate) fn normalize_path(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

pub(crate) fn is_at_or_below(root: &str, path: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns an absolute path relative to the work directory; `None` if it is outside.
pub(crate) fn relative_to(workdir: &str, path: &str) -> Option<String> {
    let rest = path.strip_prefix(workdir.trim_end_matches('/'))?;
    if rest.is_empty() {
        return Some(String::new());
    }
    rest.strip_prefix('/').map(|rest| rest.trim_end_matches('/').to_owned())
}
