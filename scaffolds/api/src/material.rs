use proctor_types::{Fault, NewComponent};

/// Task data that the benchmark provides besides the statement, for a scaffold that builds its own
/// prompt. Includes facts about the gold patch that stay on the host.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Material {
    /// `owner/name`.
    pub repo: Option<String>,
    /// The request without definitions, or the whole statement if the benchmark does not separate
    /// them.
    pub request: String,
    /// Further discussion of the request.
    pub discussion: String,
    /// The part of the gold patch that changes no code. FEA-Bench shows it as a description of the
    /// design.
    pub description_changes: String,
    /// The new definitions that the benchmark reveals. If empty, it reveals no files either.
    pub components: Vec<NewComponent>,
    /// The commands the benchmark's harness uses to apply a patch. The first is `git apply`.
    pub apply: Vec<String>,
    /// Facts about the gold patch for file selection and scoring on the host. Contains no file
    /// content.
    pub gold: Gold,
}

/// The paths and definitions in the gold patch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gold {
    /// Sorted by path.
    pub files: Vec<GoldFile>,
    /// The file and signature of each function and class that the patch adds to Python files.
    pub defined: Vec<(String, String)>,
}

/// A file that the gold patch changes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoldFile {
    /// Path relative to the work directory.
    pub path: String,
    /// Whether the patch creates the file.
    pub created: bool,
}

/// The work directory as it was when the trial started.
pub trait InitialTree: Send + Sync {
    /// Returns a digest that identifies the content.
    fn digest(&self) -> &str;

    /// Returns path and size of each file, sorted by path. Omits links and names that are not
    /// UTF-8.
    fn files(&self) -> Vec<(String, u64)>;

    /// Returns a file's Git mode.
    fn mode(&self, path: &str) -> Option<u32>;

    /// Returns a file's content, or `None` if the file does not exist or was too large to keep.
    ///
    /// # Errors
    /// Returns an error if the record cannot be read.
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, Fault>;
}
