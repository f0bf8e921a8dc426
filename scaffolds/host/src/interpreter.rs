//! The interpreter of a Python scaffold: its version, its installed packages, and the directories
//! that it needs in a sandbox.

use std::{
    env, fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::UNIX_EPOCH,
};

use proctor_types::{sha256_hex, similar_names};
use serde::{Deserialize, Serialize};

use crate::program::ProgramStore;

/// Directories of the host that are visible in every program's sandbox.
const VISIBLE_FOLDERS: [&str; 2] = ["/usr", "/opt"];
/// The oldest Python version that the driver supports.
const MIN_VERSION: [u64; 2] = [3, 9];
/// The environment variable in which the Python package passes the interpreter that started
/// Proctor.
const CALLER_VARIABLE: &str = "PROCTOR_PYTHON";
const PROBE_SCRIPT: &str = include_str!("probe.py");
const BINDINGS_SCRIPT: &str = include_str!("bindings.py");
/// Maximum number of a file's functions to list in a hint.
const MAX_LISTED_FUNCTIONS: usize = 5;

/// What is wrong, and how to fix it.
pub(crate) type InterpreterProblem = (String, String);

/// An interpreter and its packages. Its version and packages are factors of an arm; its paths are
/// not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Interpreter {
    pub executable: PathBuf,
    pub implementation: String,
    pub version: [u64; 3],
    prefix: PathBuf,
    base_prefix: PathBuf,
    site: Vec<PathBuf>,
    /// The installed packages as `name==version`, sorted.
    pub packages: Vec<String>,
}

/// The names that a Python file binds at its top level, as far as its syntax tree shows them.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Bindings {
    /// Whether the file binds the requested name, or may bind it while it runs.
    bound: bool,
    functions: Vec<String>,
    /// Why the file cannot be parsed.
    error: Option<String>,
}

impl Interpreter {
    /// Finds and inspects an interpreter. `requested` is the one that the arm sets, and `file` is
    /// the agent's file.
    pub(crate) fn find(requested: Option<&str>, file: &Path) -> Result<Self, InterpreterProblem> {
        let program = match requested {
            Some(named) => PathBuf::from(named),
            None => default_interpreter(),
        };
        let shown = program.display();
        let hint = "set the path of a Python interpreter: interpreter = \"PATH\"";
        // Run it in isolated mode, as in the sandbox, where it ignores environment variables and
        // packages in the user's home directory.
        let done = Command::new(&program)
            .args(["-I", "-c", PROBE_SCRIPT])
            .stdin(Stdio::null())
            .output()
            .map_err(|error| (format!("cannot run {shown}: {error}"), hint.to_owned()))?;
        if !done.status.success() {
            let errors = String::from_utf8_lossy(&done.stderr);
            let last = errors.lines().last().unwrap_or("no message");
            let what = format!("{shown} is not a usable Python interpreter: {last}");
            return Err((what, hint.to_owned()));
        }
        let mut found: Self = serde_json::from_slice(&done.stdout).map_err(|error| {
            (format!("{shown} is not a usable Python interpreter: {error}"), hint.to_owned())
        })?;
        // The executable may be a symlink outside the installation, such as `~/.local/bin/python3`.
        if !found.is_visible(&found.executable) {
            found.executable = fs::canonicalize(&found.executable)
                .map_err(|error| (format!("{shown}: {error}"), hint.to_owned()))?;
        }
        found.check_requirements(file)?;
        Ok(found)
    }

    /// Checks that the agent's file can be parsed and binds the function's name: by a definition, an
    /// assignment or an import. The file is not run, because users' code runs only in sandboxes.
    pub(crate) fn check_function(
        &self,
        file: &Path,
        function: &str,
    ) -> Result<(), InterpreterProblem> {
        let done = Command::new(&self.executable)
            .args(["-I", "-c", BINDINGS_SCRIPT])
            .arg(file)
            .arg(function)
            .stdin(Stdio::null())
            .output();
        let found =
            done.ok().and_then(|done| serde_json::from_slice::<Bindings>(&done.stdout).ok());
        // If the check itself fails, the file may still be valid. Otherwise, the trial reports the
        // error.
        let Some(found) = found else { return Ok(()) };
        let shown = file.display();
        if let Some(error) = found.error {
            let [major, minor, _] = self.version;
            let what = format!("{shown} is not valid Python {major}.{minor}: {error}");
            return Err((what, "fix the file".to_owned()));
        }
        if found.bound {
            return Ok(());
        }
        let names = || found.functions.iter().map(String::as_str);
        let near = similar_names(function, names());
        let hint = match (near.first(), found.functions.is_empty()) {
            (Some(near), _) => format!("did you mean `{near}`?"),
            (None, true) => format!("define it: def {function}(session)"),
            (None, false) => {
                let known: Vec<&str> = names().take(MAX_LISTED_FUNCTIONS).collect();
                format!("the file defines: {}", known.join(", "))
            }
        };
        Err((format!("{shown} has no function `{function}`"), hint))
    }

    /// Returns whether a path is visible in the sandbox.
    fn is_visible(&self, path: &Path) -> bool {
        is_visible_by_default(path)
            || [&self.prefix, &self.base_prefix].iter().any(|root| path.starts_with(root))
    }

    fn check_requirements(&self, file: &Path) -> Result<(), InterpreterProblem> {
        let shown = self.executable.display();
        let [major, minor, _] = self.version;
        if [major, minor] < MIN_VERSION {
            let what = format!("{shown} is Python {major}.{minor}");
            return Err((
                what,
                format!("use Python {}.{} or newer", MIN_VERSION[0], MIN_VERSION[1]),
            ));
        }
        for root in self.roots() {
            for (inside, what) in forbidden_paths(file) {
                if inside.starts_with(&root) {
                    let what = format!(
                        "the environment of {shown}, {}, contains {what}, which agents must not see",
                        root.display()
                    );
                    let hint = "create the environment in its own folder: python3 -m venv .venv";
                    return Err((what, hint.to_owned()));
                }
            }
        }
        Ok(())
    }

    /// Returns the directories to mount in a sandbox: the environment, and the installation that it
    /// is based on.
    pub(crate) fn roots(&self) -> Vec<PathBuf> {
        let mut roots: Vec<PathBuf> = Vec::new();
        let mut folders = vec![self.base_prefix.clone(), self.prefix.clone()];
        // In a virtual environment, `bin/python` may lead to the installation through several
        // symlinks.
        folders.extend(link_targets(&self.executable).iter().filter_map(|link| {
            let bin = link.parent()?;
            (!self.is_visible(link)).then(|| bin.parent().unwrap_or(bin).to_owned())
        }));
        for folder in folders {
            let is_there = |root: &PathBuf| folder.starts_with(root);
            if !is_visible_by_default(&folder) && !roots.iter().any(is_there) {
                roots.push(folder);
            }
        }
        roots
    }

    /// Returns a digest of the version and the packages. It is a factor of the arm.
    pub(crate) fn digest(&self) -> String {
        let packages = self.packages.join("\n");
        sha256_hex(format!("{} {:?}\n{packages}", self.implementation, self.version).as_bytes())
    }

    /// Returns the name, for example `cpython 3.12.1`.
    pub(crate) fn name(&self) -> String {
        let [major, minor, patch] = self.version;
        format!("{} {major}.{minor}.{patch}", self.implementation)
    }

    /// Returns a value that changes when a package is installed or removed. A result of the leak
    /// check is valid only for one such value.
    pub(crate) fn state(&self) -> String {
        let mut text = format!("{}\n", self.executable.display()).into_bytes();
        for site in &self.site {
            let mut entries: Vec<_> = fs::read_dir(site).into_iter().flatten().flatten().collect();
            entries.sort_by_key(fs::DirEntry::file_name);
            for entry in entries {
                text.extend_from_slice(entry.file_name().as_bytes());
                let modified = entry.metadata().and_then(|found| found.modified()).ok();
                let since = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
                text.extend_from_slice(format!("\0{since:?}\n").as_bytes());
            }
        }
        sha256_hex(&text)
    }

    /// Stores the interpreter's location for trials, which know only its digest.
    pub(crate) fn store(&self, programs: &ProgramStore) -> Result<String, InterpreterProblem> {
        let digest = self.digest();
        let text = serde_json::to_string(self).unwrap_or_default();
        programs
            .store_note(&note_name(&digest, &self.executable), &text)
            .map_err(|error| (error.to_string(), "make the cache writable".to_owned()))?;
        Ok(digest)
    }

    /// Returns an interpreter with this digest, if this machine has a stored location that still
    /// exists. Environments in different folders may have the same packages. So if this run's
    /// environment was removed, another run's environment may be returned.
    pub(crate) fn load(programs: &ProgramStore, digest: &str) -> Option<Self> {
        let notes = programs.read_notes(&format!("{NOTE_PREFIX}{digest}"));
        let mut stored = notes.iter().filter_map(|text| serde_json::from_str::<Self>(text).ok());
        stored.find(|found| found.executable.exists())
    }
}

/// Prefix of the names of stored locations. Earlier versions of Proctor used only the prefix and
/// the digest.
const NOTE_PREFIX: &str = "interpreter-";

/// Returns a different name for each location, so that runs don't overwrite each other's.
fn note_name(digest: &str, executable: &Path) -> String {
    let location = sha256_hex(executable.as_os_str().as_bytes());
    format!("{NOTE_PREFIX}{digest}-{location:.16}.json")
}

/// Returns the default interpreter: the one that started Proctor through the Python package, or the
/// one next to the binary from a wheel, or else `python3` from `PATH`.
fn default_interpreter() -> PathBuf {
    let caller = env::var_os(CALLER_VARIABLE).map(PathBuf::from);
    let beside = || {
        let binary = env::current_exe().ok()?;
        let folder = binary.parent()?;
        ["python3", "python"].iter().map(|name| folder.join(name)).find(|path| path.is_file())
    };
    caller.filter(|path| path.is_file()).or_else(beside).unwrap_or_else(|| "python3".into())
}

/// Returns the targets in a chain of symlinks.
fn link_targets(path: &Path) -> Vec<PathBuf> {
    let (mut found, mut at) = (Vec::new(), path.to_owned());
    // Like the kernel, follow at most 40 symlinks.
    while found.len() < 40
        && let Ok(target) = fs::read_link(&at)
    {
        at = at.parent().map_or_else(|| target.clone(), |parent| parent.join(&target));
        found.push(at.clone());
    }
    found
}

fn is_visible_by_default(path: &Path) -> bool {
    VISIBLE_FOLDERS.iter().any(|root| path.starts_with(root))
}

/// Returns paths that must not be in an agent's sandbox, each with a description.
fn forbidden_paths(file: &Path) -> Vec<(PathBuf, &'static str)> {
    let mut all = vec![(file.to_owned(), "the agent's own file")];
    all.extend(env::var_os("HOME").map(|home| (PathBuf::from(home), "your home directory")));
    all.extend(env::current_dir().ok().map(|here| (here, "the current directory")));
    // `/` contains every path. Checking `/etc` and `/home` is enough to detect it.
    all.push((PathBuf::from("/etc"), "this machine's root"));
    all
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn interpreter_at(prefix: &str, base: &str) -> Interpreter {
        Interpreter {
            executable: "/usr/bin/python3".into(),
            implementation: "cpython".into(),
            version: [3, 11, 2],
            prefix: prefix.into(),
            base_prefix: base.into(),
            site: Vec::new(),
            packages: vec!["a==1".into()],
        }
    }

    #[test]
    fn interpreter_roots_are_folders_hidden_by_default() {
        let roots = |prefix: &str, base: &str| {
            let all = interpreter_at(prefix, base).roots();
            all.iter().map(|root| root.display().to_string()).collect::<Vec<_>>()
        };
        assert!(roots("/usr", "/usr").is_empty());
        assert!(roots("/opt/conda/envs/x", "/opt/conda").is_empty());
        assert_eq!(roots("/home/me/p/.venv", "/usr"), ["/home/me/p/.venv"]);
        let both = roots("/p/.venv", "/root/.pyenv/versions/3.12.1");
        assert_eq!(both, ["/root/.pyenv/versions/3.12.1", "/p/.venv"]);
        assert_eq!(roots("/c/envs/x", "/c"), ["/c"]);
        // A directory whose name merely starts with the same characters is not below the other one.
        assert_eq!(roots("/usrlocal", "/usr"), ["/usrlocal"]);
    }

    #[test]
    fn interpreter_follows_links_of_an_environment() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        fs::create_dir_all(place("3.12.1/bin")).unwrap();
        fs::create_dir_all(place("venv/bin")).unwrap();
        fs::write(place("3.12.1/bin/python3.12"), "").unwrap();
        symlink(place("3.12.1"), place("3.12")).unwrap();
        symlink(place("3.12/bin/python3.12"), place("venv/bin/python3")).unwrap();
        symlink("python3", place("venv/bin/python")).unwrap();
        let mut found =
            interpreter_at(place("venv").to_str().unwrap(), place("3.12.1").to_str().unwrap());
        found.executable = place("venv/bin/python");
        assert_eq!(found.roots(), [place("3.12.1"), place("venv"), place("3.12")]);
    }

    #[test]
    fn interpreter_rejects_environments_with_user_files() {
        for (prefix, says) in [
            ("/", "contains"),
            ("/project", "the agent's own file"),
            ("/project/agents", "the agent's own file"),
        ] {
            let (what, hint) = interpreter_at(prefix, "/usr")
                .check_requirements(Path::new("/project/agents/a.py"))
                .unwrap_err();
            assert!(what.contains(says) && hint.contains("venv"), "{prefix}: {what}");
        }
        interpreter_at("/project/.venv", "/usr")
            .check_requirements(Path::new("/project/agents/a.py"))
            .unwrap();
        let mut old = interpreter_at("/usr", "/usr");
        old.version = [3, 8, 9];
        let (what, hint) = old.check_requirements(Path::new("/a.py")).unwrap_err();
        assert!(what.contains("Python 3.8") && hint.contains("3.9"), "{what}: {hint}");
    }

    #[test]
    fn interpreter_digest_depends_on_version_and_packages() {
        let one = interpreter_at("/a", "/usr");
        assert_eq!(one.digest(), interpreter_at("/b", "/opt/x").digest());
        let mut other = one.clone();
        other.packages.push("b==2".into());
        assert_ne!(one.digest(), other.digest());
        let mut other = one.clone();
        other.version = [3, 11, 3];
        assert_ne!(one.digest(), other.digest());
    }

    #[test]
    fn interpreter_loads_from_another_folder_with_the_same_packages() {
        let folder = tempfile::tempdir().unwrap();
        let programs = ProgramStore::new(folder.path().join("programs"));
        let environments = ["kept", "removed"].map(|name| {
            let executable = folder.path().join(name);
            fs::write(&executable, "").unwrap();
            Interpreter { executable, ..interpreter_at("/a", "/usr") }
        });
        let [kept, removed] = &environments;
        let digest = kept.store(&programs).unwrap();
        assert_eq!(removed.store(&programs), Ok(digest.clone()));
        fs::remove_file(&removed.executable).unwrap();
        assert_eq!(Interpreter::load(&programs, &digest).as_ref(), Some(kept));
    }

    #[test]
    fn function_may_be_bound_in_any_way_but_must_be_bound() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("agent.py");
        let python =
            Interpreter::find(Some("/usr/bin/python3"), Path::new("/nowhere/a.py")).unwrap();
        for text in [
            "def solve(session): ...",
            "async def solve(session): ...",
            "if True:\n    def solve(session): ...",
            "from elsewhere import run as solve",
            "from elsewhere import *",
            "import elsewhere\nsolve = elsewhere.make()",
            "def make():\n    global solve\n    solve = print",
            "globals()['solve'] = print",
            "def __getattr__(name): ...",
        ] {
            fs::write(&file, text).unwrap();
            assert_eq!(python.check_function(&file, "solve"), Ok(()), "{text}");
        }
        for (text, says, hint) in [
            ("", "has no function `solve`", "def solve(session)"),
            ("# def solve(session): ...", "has no function `solve`", "define it"),
            ("def outer():\n    def solve(s): ...", "has no function `solve`", "defines: outer"),
            ("class Agent:\n    def solve(self): ...", "has no function `solve`", "define it"),
            ("def solves(session): ...", "has no function `solve`", "did you mean `solves`?"),
            ("def solve(session:\n", "is not valid Python 3.", "fix the file"),
            ("a = 1\n  b = 2\n", "line 2", "fix the file"),
        ] {
            fs::write(&file, text).unwrap();
            let (what, told) = python.check_function(&file, "solve").unwrap_err();
            assert!(what.contains(says) && told.contains(hint), "{text}: {what}: {told}");
        }
        // The file is parsed and never run.
        let marker = folder.path().join("ran");
        fs::write(&file, format!("open({marker:?}, 'w')\ndef solve(s): ...")).unwrap();
        python.check_function(&file, "solve").unwrap();
        assert!(!marker.exists());
    }

    #[test]
    fn interpreter_is_found_and_stored() {
        let folder = tempfile::tempdir().unwrap();
        let programs = ProgramStore::new(folder.path().join("programs"));
        let found =
            Interpreter::find(Some("/usr/bin/python3"), Path::new("/nowhere/a.py")).unwrap();
        assert_eq!(found.version[0], 3);
        assert!(found.roots().is_empty(), "{found:?}");
        let digest = found.store(&programs).unwrap();
        assert_eq!(Interpreter::load(&programs, &digest), Some(found));
        assert_eq!(Interpreter::load(&programs, "other"), None);
        for (named, says) in [("/no/such/python", "cannot run"), ("/bin/false", "not a usable")] {
            let (what, hint) = Interpreter::find(Some(named), Path::new("/a.py")).unwrap_err();
            assert!(what.contains(says) && hint.contains("interpreter = "), "{what}");
        }
    }
}
