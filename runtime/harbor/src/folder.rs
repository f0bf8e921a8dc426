//! Reads the files of a task folder: decides which files belong to the task and which are excluded,
//! and computes the digest.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use proctor_types::hex;
use sha2::{Digest, Sha256};

use crate::{
    TASK_FILE,
    ignore::{IgnoreRules, RuleSyntax},
    rules::Rules,
};

/// Name of the verifier's script in `tests/`.
pub const TEST_SCRIPT: &str = "test.sh";

/// Name of the solution's script in `solution/`.
pub const SOLVE_SCRIPT: &str = "solve.sh";

const HARBORIGNORE: &str = ".harborignore";
const GITIGNORE: &str = ".gitignore";

/// Top-level files that belong to a task and are covered by its digest.
const DIGEST_FILES: [&str; 4] = [TASK_FILE, "instruction.md", "README.md", "trajectory.json"];

/// Folders that belong to a task.
const DIGEST_FOLDERS: [&str; 4] = ["environment", "tests", "solution", "steps"];

/// An entry in `tests/` or `solution/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputEntry {
    /// Path relative to `tests/` or `solution/`. The separator is `/`.
    pub path: String,
    /// Permission bits.
    pub mode: u32,
    /// The type of the entry.
    pub kind: InputKind,
}

/// The type of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputKind {
    /// A directory.
    Folder,
    /// A file, with its content.
    File(Vec<u8>),
    /// A symlink, with its target as written.
    Link(String),
}

/// A task folder on this machine.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    rules: RefCell<BTreeMap<PathBuf, Option<IgnoreRules>>>,
}

impl Folder {
    /// Opens a task folder.
    ///
    /// # Errors
    /// Fails if the folder does not exist or cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let root = path.canonicalize()?;
        if !root.is_dir() {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, "not a folder"));
        }
        Ok(Self { root, rules: RefCell::default() })
    }

    /// Returns the folder's absolute path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether the folder contains a file or folder with this relative path.
    pub fn contains(&self, name: &str) -> bool {
        self.root.join(name).exists()
    }

    /// Whether the folder contains a non-empty folder with this name.
    pub fn has_entries(&self, name: &str) -> bool {
        fs::read_dir(self.root.join(name)).is_ok_and(|mut entries| entries.next().is_some())
    }

    /// Returns the entries in `tests/` or `solution/`, except for entries that `.harborignore`
    /// excludes. Folders come before their contents.
    ///
    /// # Errors
    /// Fails if a link leads out of the task folder, links form a loop, a name is not UTF-8, or a
    /// file is unreadable.
    pub fn inputs(&self, name: &str) -> Result<Vec<InputEntry>, String> {
        let folder = self.root.join(name);
        self.check_links(name)?;
        let mut inputs = Vec::new();
        for path in self.included_paths(&folder)? {
            let full = folder.join(&path);
            let meta = fs::symlink_metadata(&full).map_err(|error| path_error(&full, &error))?;
            let mode = meta.permissions().mode() & 0o7777;
            let kind = if meta.is_symlink() {
                let target = fs::read_link(&full).map_err(|error| path_error(&full, &error))?;
                InputKind::Link(path_text(&target)?)
            } else if meta.is_dir() {
                InputKind::Folder
            } else if meta.is_file() {
                InputKind::File(fs::read(&full).map_err(|error| path_error(&full, &error))?)
            } else {
                continue;
            };
            inputs.push(InputEntry { path: path_text(&path)?, mode, kind });
        }
        Ok(inputs)
    }

    /// Whether `.harborignore` excludes the task's file or folder with this relative path.
    ///
    /// # Errors
    /// Fails if the ignore rules cannot be read.
    pub fn is_excluded(&self, name: &str) -> Result<bool, String> {
        self.is_path_excluded(&self.root.join(name))
    }

    /// Checks that no link below a folder points outside the task folder.
    ///
    /// # Errors
    /// Returns a message that names the link.
    pub fn check_links(&self, name: &str) -> Result<(), String> {
        let folder = self.root.join(name);
        if !folder.exists() && !folder.is_symlink() {
            return Ok(());
        }
        self.check_links_below(&folder, &mut Vec::new())
    }

    fn check_links_below(&self, path: &Path, ancestors: &mut Vec<PathBuf>) -> Result<(), String> {
        if self.is_path_excluded(path)? {
            return Ok(());
        }
        let shown = || path.strip_prefix(&self.root).unwrap_or(path).display().to_string();
        let real = real_path(path);
        if !real.starts_with(&self.root) {
            return Err(format!("{} points outside the task folder", shown()));
        }
        if !path.is_dir() {
            return Ok(());
        }
        if ancestors.contains(&real) {
            return Err(format!("{} is a circular link", shown()));
        }
        ancestors.push(real);
        for entry in sorted_entries(path)? {
            self.check_links_below(&entry, ancestors)?;
        }
        ancestors.pop();
        Ok(())
    }

    /// Checks that a path in the folder is not a link, and not below a link, that leads out of the
    /// folder. Does not check the entries below the path.
    ///
    /// # Errors
    /// Returns a message about the path.
    pub fn check_path(&self, name: &str) -> Result<(), String> {
        match real_path(&self.root.join(name)).starts_with(&self.root) {
            true => Ok(()),
            false => Err("is a link that points outside the task folder".to_owned()),
        }
    }

    /// Returns the digest of the folder's content as `sha256:` and hex digits. Harbor's publisher
    /// computes the same digest.
    ///
    /// # Errors
    /// Fails if a file cannot be read, a name is not UTF-8, or one of the top-level files is a link
    /// that leads out of the folder.
    pub fn digest(&self) -> Result<String, String> {
        let mut whole = Sha256::new();
        for (path, full) in self.digest_files()? {
            let mut content = Sha256::new();
            let mut file = fs::File::open(&full).map_err(|error| path_error(&full, &error))?;
            let mut piece = vec![0; 1 << 16];
            loop {
                match file.read(&mut piece).map_err(|error| path_error(&full, &error))? {
                    0 => break,
                    read => content.update(&piece[..read]),
                }
            }
            whole.update(format!("{path}\0{}\n", hex(&content.finalize())));
        }
        Ok(format!("sha256:{}", hex(&whole.finalize())))
    }

    /// Returns the files that the digest covers, sorted by path.
    fn digest_files(&self) -> Result<BTreeMap<String, PathBuf>, String> {
        let mut files = BTreeMap::new();
        for name in DIGEST_FILES {
            let full = self.root.join(name);
            if full.exists() {
                self.check_path(name).map_err(|why| format!("{name} {why}"))?;
                files.insert(name.to_owned(), full);
            }
        }
        for name in DIGEST_FOLDERS {
            let folder = self.root.join(name);
            if !folder.exists() {
                continue;
            }
            for path in self.included_paths(&folder)? {
                let full = folder.join(&path);
                if full.is_file() {
                    files.insert(format!("{name}/{}", path_text(&path)?), full);
                }
            }
        }
        let ignore = self.root.join(GITIGNORE);
        self.check_path(GITIGNORE).map_err(|why| format!("{GITIGNORE} {why}"))?;
        let rules = if ignore.exists() {
            let rules = fs::read_to_string(&ignore).map_err(|error| path_error(&ignore, &error))?;
            IgnoreRules::parse(RuleSyntax::Basic, rules.lines())
        } else {
            let shipped = &Rules::get()?.digest.ignore;
            IgnoreRules::parse(RuleSyntax::Basic, shipped.iter().map(String::as_str))
        };
        let rules = rules.map_err(|why| format!("{GITIGNORE}: {why}"))?;
        files.retain(|path, _| rules.excludes(path) != Some(true));
        Ok(files)
    }

    /// Returns the paths below a folder that are not excluded. Links to folders are listed but not
    /// followed.
    fn included_paths(&self, folder: &Path) -> Result<Vec<PathBuf>, String> {
        if !folder.is_dir() || self.is_path_excluded(folder)? {
            return Ok(Vec::new());
        }
        let mut paths = Vec::new();
        self.visit(folder, folder, &mut paths)?;
        Ok(paths)
    }

    fn visit(&self, top: &Path, folder: &Path, paths: &mut Vec<PathBuf>) -> Result<(), String> {
        for path in sorted_entries(folder)? {
            if self.is_path_excluded(&path)? {
                continue;
            }
            paths.extend(path.strip_prefix(top).map(Path::to_path_buf));
            if path.is_dir() && !path.is_symlink() {
                self.visit(top, &path, paths)?;
            }
        }
        Ok(())
    }

    /// Returns the `.harborignore` files that have no effect because of their location. Paths are
    /// relative to the folder.
    pub(crate) fn unused_ignore_files(&self) -> Result<Vec<String>, String> {
        let mut paths = Vec::new();
        self.collect_ignore_files(&self.root, &mut paths)?;
        Ok(paths)
    }

    fn collect_ignore_files(&self, folder: &Path, paths: &mut Vec<String>) -> Result<(), String> {
        let has_effect = is_in_scope(folder.strip_prefix(&self.root).unwrap_or(folder), true);
        for path in sorted_entries(folder)? {
            if path.file_name().is_some_and(|name| name == HARBORIGNORE) {
                if !has_effect {
                    paths.push(self.display_path(&path));
                }
                continue;
            }
            let is_history = path.file_name().is_some_and(|name| name == ".git");
            if path.is_dir()
                && !path.is_symlink()
                && !is_history
                && !self.is_path_excluded(&path)?
            {
                self.collect_ignore_files(&path, paths)?;
            }
        }
        Ok(())
    }

    /// Whether the path is excluded, either by its own name or by the name of the file to which it
    /// links.
    fn is_path_excluded(&self, path: &Path) -> Result<bool, String> {
        if self.is_ignored(path)? {
            return Ok(true);
        }
        let real = real_path(path);
        Ok(real != path && real.starts_with(&self.root) && self.is_ignored(&real)?)
    }

    fn is_ignored(&self, path: &Path) -> Result<bool, String> {
        let Ok(relative) = path.strip_prefix(&self.root) else { return Ok(false) };
        if relative.file_name().is_some_and(|name| name == HARBORIGNORE) {
            return Ok(true);
        }
        if !is_in_scope(relative, path.is_dir()) {
            return Ok(false);
        }
        let mut folders: Vec<PathBuf> = Vec::new();
        let mut here = self.root.clone();
        for part in relative.components() {
            folders.push(here.clone());
            here.push(part);
            let is_folder = here != path || path.is_dir();
            if !is_in_scope(here.strip_prefix(&self.root).unwrap_or(&here), is_folder) {
                continue;
            }
            let mut excluded = false;
            for folder in &folders {
                let below = here.strip_prefix(folder).unwrap_or(&here);
                let slash = if is_folder { "/" } else { "" };
                let asked = format!("{}{slash}", below.to_string_lossy());
                if let Some(found) = self.exclusion_by_folder(folder, &asked)? {
                    excluded = found;
                }
            }
            if excluded {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether one folder's rules exclude a path, or `None` if no rule matches.
    fn exclusion_by_folder(&self, folder: &Path, path: &str) -> Result<Option<bool>, String> {
        let relative = folder.strip_prefix(&self.root).unwrap_or(folder);
        if !is_in_scope(relative, true) {
            return Ok(None);
        }
        let cached_rules = self.rules.borrow().get(folder).cloned();
        let rules = match cached_rules {
            Some(rules) => rules,
            None => {
                let rules = self.read_rules(folder)?;
                self.rules.borrow_mut().insert(folder.to_owned(), rules.clone());
                rules
            }
        };
        Ok(rules.and_then(|rules| rules.excludes(path)))
    }

    fn read_rules(&self, folder: &Path) -> Result<Option<IgnoreRules>, String> {
        let file = folder.join(HARBORIGNORE);
        if !file.exists() && !file.is_symlink() {
            return Ok(None);
        }
        if !real_path(&file).starts_with(&self.root) || !file.is_file() {
            return Err(format!("{} must be a file in the task folder", self.display_path(&file)));
        }
        let text = fs::read_to_string(&file).map_err(|error| path_error(&file, &error))?;
        let rules = IgnoreRules::parse(RuleSyntax::Git, text.lines());
        rules.map(Some).map_err(|why| format!("{}: {why}", self.display_path(&file)))
    }

    fn display_path(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).display().to_string()
    }
}

/// Whether ignore rules apply to a path. They apply in the task's `tests/` and `solution/`, and in
/// each step's folders of the same names.
fn is_in_scope(relative: &Path, is_folder: bool) -> bool {
    let parts: Vec<_> = relative.iter().collect();
    let at = if parts.first().is_some_and(|first| *first == "steps") { 2 } else { 0 };
    let is_input_folder = parts.get(at).is_some_and(|name| *name == "tests" || *name == "solution");
    is_input_folder && (parts.len() > at + 1 || is_folder)
}

/// Resolves the links in the part of a path that exists.
fn real_path(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    // The path does not exist. Resolve its parent, and follow the path itself if it is a dangling
    // link.
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return path.to_owned();
    };
    let parent = parent.canonicalize().unwrap_or_else(|_| parent.to_owned());
    let Ok(target) = fs::read_link(path) else { return parent.join(name) };
    let mut real = PathBuf::new();
    for part in parent.join(target).components() {
        match part {
            std::path::Component::ParentDir => drop(real.pop()),
            std::path::Component::CurDir => {}
            part => real.push(part),
        }
    }
    real
}

fn sorted_entries(folder: &Path) -> Result<BTreeSet<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| path_error(folder, &error))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    paths.collect::<io::Result<_>>().map_err(|error| path_error(folder, &error))
}

fn path_error(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

fn path_text(path: &Path) -> Result<String, String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| format!("the name {} is not UTF-8", path.display()))
}

/// Returns a dataset's digest. It covers the digests of the tasks and, if there are any, the
/// dataset's own files.
pub fn dataset_digest<'a>(
    tasks: impl IntoIterator<Item = &'a str>,
    files: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> String {
    let plain = |digest: &'a str| digest.strip_prefix("sha256:").unwrap_or(digest);
    let mut tasks: Vec<_> = tasks.into_iter().map(plain).collect();
    tasks.sort_unstable();
    let mut files: Vec<_> =
        files.into_iter().map(|(path, digest)| format!("{path}:{}", plain(digest))).collect();
    files.sort_unstable();
    let mut text = tasks.join(",");
    if !files.is_empty() {
        text.push(';');
        text.push_str(&files.join(","));
    }
    format!("sha256:{}", hex(&Sha256::digest(text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn create_folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn ignored_files_are_excluded_from_inputs_and_digest() {
        let files = [("task.toml", ""), ("tests/test.sh", "true"), ("tests/data/keep", "1")];
        let (one, other) = (create_folder(&files), create_folder(&files));
        fs::write(other.path().join("tests/.harborignore"), "*.log\ndata/*\n!data/keep\n").unwrap();
        fs::write(other.path().join("tests/x.log"), "noise").unwrap();
        fs::write(other.path().join("tests/data/drop"), "2").unwrap();
        let (one, other) = (Folder::open(one.path()).unwrap(), Folder::open(other.path()).unwrap());
        assert_eq!(one.digest().unwrap(), other.digest().unwrap());
        let names = |folder: &Folder| {
            let inputs = folder.inputs("tests").unwrap();
            inputs.into_iter().map(|one| one.path).collect::<Vec<_>>()
        };
        assert_eq!(names(&other), ["data", "data/keep", "test.sh"]);
        assert!(other.is_excluded("tests/x.log").unwrap());
        assert!(
            !other.is_excluded("environment/x.log").unwrap(),
            "rules outside their scope have no effect"
        );
    }

    #[test]
    fn links_out_of_the_folder_are_rejected_even_if_dangling() {
        let folder =
            create_folder(&[("task.toml", ""), ("tests/test.sh", ""), ("environment/data", "")]);
        symlink("../environment/data", folder.path().join("tests/inner")).unwrap();
        let task = Folder::open(folder.path()).unwrap();
        task.check_links("tests").unwrap();
        for target in ["/etc", "../../elsewhere", "../environment/../../x"] {
            let link = folder.path().join("tests/out");
            symlink(target, &link).unwrap();
            let error = task.check_links("tests").unwrap_err();
            assert!(error.contains("tests/out points outside"), "{target}: {error}");
            fs::remove_file(link).unwrap();
        }
        symlink("tests/test.sh", folder.path().join("instruction.md")).unwrap();
        for name in ["task.toml", "instruction.md", "README.md", "tests"] {
            task.check_path(name).unwrap();
        }
        for target in ["/etc/passwd", "../no-such-file"] {
            let link = folder.path().join("README.md");
            symlink(target, &link).unwrap();
            assert!(task.check_path("README.md").unwrap_err().contains("outside"), "{target}");
            assert_eq!(task.digest().is_err(), target == "/etc/passwd", "{target}");
            fs::remove_file(link).unwrap();
        }
        symlink("..", folder.path().join("tests/circle")).unwrap();
        assert!(task.check_links("tests").unwrap_err().contains("circle"));
        task.check_links("solution").unwrap();
    }
}
