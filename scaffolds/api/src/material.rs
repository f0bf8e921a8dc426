use proctor_types::{Fault, NewComponent};

/// Task data that the benchmark provides in addition to the statement, for a scaffold that builds
/// its own prompt. Includes facts about the gold patch, which stay on the host.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Material {
    /// The repository as `owner/name`.
    pub repo: Option<String>,
    /// The request without the definitions. If the benchmark does not separate them, the whole
    /// statement.
    pub request: String,
    /// Further discussion of the request.
    pub discussion: String,
    /// The parts of the gold patch that change no code. FEA-Bench shows them as a description of
    /// the design.
    pub description_changes: String,
    /// The new definitions that the benchmark reveals. If there are none, the benchmark reveals no
    /// files either.
    pub components: Vec<NewComponent>,
    /// The commands that the benchmark's harness uses to apply a patch. The first is `git apply`.
    pub apply_commands: Vec<String>,
    /// Facts about the gold patch, for selecting files and for scores on the host. Contains no file
    /// content.
    pub gold: GoldFacts,
}

/// The paths and definitions in the gold patch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GoldFacts {
    /// The files that the gold patch changes, sorted by path.
    pub files: Vec<GoldFile>,
    /// The file and signature of each function and class that the gold patch adds to Python files.
    pub definitions: Vec<(String, String)>,
}

/// A file that the gold patch changes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoldFile {
    /// The file's path, relative to the work directory.
    pub path: String,
    /// Whether the patch creates the file.
    pub is_new: bool,
}

/// The state of the work directory when the trial started.
pub trait InitialTree: Send + Sync {
    /// Returns a digest that identifies the content.
    fn digest(&self) -> &str;

    /// Returns the path and size of each file, sorted by path. Leaves out links and files whose
    /// names are not UTF-8.
    fn files(&self) -> Vec<(String, u64)>;

    /// Returns a file's Git mode; `None` if the file does not exist.
    fn mode(&self, path: &str) -> Option<u32>;

    /// Returns a file's content, or `None` if the file does not exist or was too large to be
    /// recorded.
    ///
    /// # Errors
    /// Fails if the record cannot be read.
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, Fault>;
}
