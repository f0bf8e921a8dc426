use proctor_types::{Fault, NewComponent};

/// What a benchmark tells of a task besides the statement, for a scaffold that makes its own prompt of it; and what the
/// host knows of the gold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Material {
    /// `owner/name`.
    pub repo: Option<String>,
    /// The request alone, without definitions: the whole statement where the benchmark does not tell them apart.
    pub request: String,
    /// What was said of it elsewhere.
    pub discussion: String,
    /// The part of the gold that changes no code, which FEA-Bench shows as a description of the design.
    pub description_changes: String,
    /// The definitions that the benchmark tells. None: it tells no file.
    pub components: Vec<NewComponent>,
    /// The commands by which the benchmark's harness applies a patch, the first of them `git apply`.
    pub apply: Vec<String>,
    /// For choosing files and for scoring, on the host. No content of it.
    pub gold: Gold,
}

/// The gold, by names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gold {
    /// Sorted by path.
    pub files: Vec<GoldFile>,
    /// File and signature of each function and class that it adds to Python files.
    pub defined: Vec<(String, String)>,
}

/// A file that the gold touches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoldFile {
    /// Relative to the work directory.
    pub path: String,
    /// It is not there yet.
    pub created: bool,
}

/// The work directory as a trial began.
pub trait StartTree: Send + Sync {
    /// Names the whole of it.
    fn digest(&self) -> &str;

    /// Its files, sorted by path: links and names that are no text are left out.
    fn files(&self) -> Vec<(String, u64)>;

    /// Git's mode of a file.
    fn mode(&self, path: &str) -> Option<u32>;

    /// A file's content. `None`: there is no such file, or it was too large to be kept.
    ///
    /// # Errors
    /// The record cannot be read.
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, Fault>;
}
