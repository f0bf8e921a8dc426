//! Paths in a report.

/// The directory to which paths in a report are made relative.
pub(super) struct ReportRoot(String);

impl ReportRoot {
    pub(super) fn new(folder: &str) -> Self {
        Self(format!("{}/", folder.trim_end_matches('/')))
    }

    pub(super) fn relative_path<'p>(&self, path: &'p str) -> &'p str {
        let path = path.strip_prefix("file://").unwrap_or(path);
        path.strip_prefix(self.0.as_str()).unwrap_or(path)
    }
}
