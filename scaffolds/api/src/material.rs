use proctor_types::{Fault, NewComponent};

/// What a benchmark provides for a task besides the statement, for a scaffold that builds its own
/// prompt, and what the host knows about the gold patch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Material {
    /// `owner/name`.
    pub repo: Option<String>,
    /// The request without definitions; the whole statement if the benchmark does not separate
    /// them.
    pub request: String,
    /// Further discussion of the request.
    pub discussion: String,
    /// The part of the gold patch that changes no code, which FEA-Bench shows as a description of
    /// the design.
    pub description_changes: String,
    /// The definitions that the benchmark reveals. Empty: it reveals no file.
    pub components: Vec<NewComponent>,
    /// The commands with which the benchmark's harness applies a patch; the first is `git apply`.
    pub apply: Vec<String>,
    /// For choosing files and for scoring, on the host. Contains no file content.
    pub gold: Gold,
}

/// The gold patch, by names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gold {
    /// Sorted by path.
    pub files: Vec<GoldFile>,
    /// File and signature of each function and class that it adds to Python files.
    pub defined: Vec<(String, String)>,
}

/// A file that the gold patch changes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoldFile {
    /// Relative to the work directory.
    pub path: String,
    /// It does not exist yet.
    pub created: bool,
}

/// The work directory at a trial's start.
pub trait StartTree: Send + Sync {
    /// Identifies its content.
    fn digest(&self) -> &str;

    /// Its files, sorted by path, without links and names that are not UTF-8.
    fn files(&self) -> Vec<(String, u64)>;

    /// Git's mode of a file.
    fn mode(&self, path: &str) -> Option<u32>;

    /// A file's content. `None`: there is no such file, or it was too large to keep.
    ///
    /// # Errors
    /// The record cannot be read.
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, Fault>;
}
