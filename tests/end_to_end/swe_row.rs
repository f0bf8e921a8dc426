//! Creates a SWE-bench 5.x row with its script from two releases of a real library. Also builds the
//! image that the row names, which contains a Git history in `/testbed` and an environment
//! `testbed` that a script activates.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
};

use proctor_setup::Sources;
use proctor_types::{Source, sha256_hex};
use serde_json::{Value, json};

/// An image that `tests/images/debian.sh` builds.
const BASE_IMAGE: &str = "proctor-test:git";
pub const INSTANCE_ID: &str = "mahmoud__boltons-357";
const ENVIRONMENT: &str = "/opt/miniconda3/envs/testbed";
const OLD_RELEASE: (&str, &str) =
    ("24.0.0", "7153feccaea1ff2e1472f68d4b57fadb796a2ee49d29f638f1c9cd8fb5ebd916");
const NEW_RELEASE: (&str, &str) =
    ("24.1.0", "4a49b7d57ee055b83a458c8682a2a6f199d263a8aa517098bda9bab813554b87");
const TESTS: &str = "tests/test_fileutils.py tests/test_iterutils.py tests/test_tbutils.py \
                     tests/test_typeutils.py";
pub const FAIL_TO_PASS: [&str; 3] = [
    "tests/test_fileutils.py::test_iter_find_files",
    "tests/test_iterutils.py::test_research_custom_enter",
    "tests/test_typeutils.py::test_sentinel_copy",
];
const PASS_TO_PASS: [&str; 6] = [
    "tests/test_fileutils.py::test_fileperms",
    "tests/test_iterutils.py::TestRemap::test_basic_clone",
    "tests/test_iterutils.py::TestRemap::test_remap_file",
    "tests/test_iterutils.py::test_chunked_bytes",
    "tests/test_tbutils.py::test_exception_info",
    "tests/test_typeutils.py::test_sentinel_pickle",
];
/// The part of Conda that is needed for `source activate && conda activate NAME`.
const ACTIVATE_SCRIPT: &str = "conda() { . /opt/miniconda3/envs/\"$2\"/bin/activate; }\n";
const PYTEST: &str = "pytest==8.4.2";

/// A row, and its repository at the row's commit. At first, the row has no image.
pub struct SweRow {
    pub repository: PathBuf,
    pub value: Value,
}

impl SweRow {
    /// Creates the repository in a new folder. The first time, this requires the package index.
    pub fn create(folder: &Path, sources: &Path) -> Self {
        fs::create_dir_all(folder).unwrap();
        git(folder, &["init", "-q", "-b", "main", "."]);
        let commit = |of: (&str, &str)| {
            check_out(folder, of.0, of.1, sources);
            git(folder, &["add", "-A"]);
            git(folder, &["commit", "-q", "-m", of.0]);
            git(folder, &["rev-parse", "HEAD"])
        };
        let (base, head) = (commit(OLD_RELEASE), commit(NEW_RELEASE));
        let between = |paths: &str| diff(folder, &[&base, &head, "--", paths]);
        let (patch, test_patch) = (between(":!tests"), between("tests"));
        git(folder, &["reset", "-q", "--hard", &base]);
        git(folder, &["reflog", "expire", "--expire=now", "--all"]);
        git(folder, &["gc", "-q", "--prune=now"]);
        let value = json!({
            "repo": "mahmoud/boltons", "instance_id": INSTANCE_ID, "base_commit": base, "patch": patch,
            "test_patch": test_patch, "problem_statement": "Search with a custom `enter`; ...",
            "hints_text": "", "created_at": "2024-11-01T00:00:00Z", "version": "24.0",
            "FAIL_TO_PASS": json!(FAIL_TO_PASS).to_string(),
            "PASS_TO_PASS": json!(PASS_TO_PASS).to_string(),
            "environment_setup_commit": base, "log_parser": "parse_log_pytest",
            "eval_type": "pass_and_fail", "eval_script": eval_script(&base, &test_patch),
        });
        Self { repository: folder.to_owned(), value }
    }

    pub fn gold_patch(&self) -> String {
        self.value["patch"].as_str().unwrap().to_owned()
    }

    /// Builds the image of the row in the Docker engine if it is missing, and adds its name to the
    /// row.
    pub fn build_image(&mut self, scratch: &Path) {
        let setup = format!(
            "set -e\npython3 -m venv {ENVIRONMENT}\n{ENVIRONMENT}/bin/pip install -q --no-index \
             --find-links /wheels {PYTEST}\necho /testbed >{ENVIRONMENT}/lib/python3.11/site-packages/\
             testbed.pth\nrm -rf /wheels\n"
        );
        let commit = self.value["base_commit"].as_str().unwrap();
        let base = run_docker(&["image", "inspect", "-f", "{{.Id}}", BASE_IMAGE]);
        let key = sha256_hex(format!("{base}{commit}{setup}{ACTIVATE_SCRIPT}").as_bytes());
        let image = format!("proctor-test-swe-bench:{}", &key[..16]);
        self.value["image"] = image.as_str().into();
        // If two tests built the same image at the same time, one of the images would lose its
        // name.
        static BUILD_LOCK: Mutex<()> = Mutex::new(());
        let _alone = BUILD_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        let there = Command::new("docker").args(["image", "inspect", &image]).output().unwrap();
        if there.status.success() {
            return;
        }
        let root = scratch.join("image");
        download_wheels(scratch, &root.join("wheels"));
        fs::create_dir_all(root.join("opt/miniconda3/bin")).unwrap();
        fs::write(root.join("opt/miniconda3/bin/activate"), ACTIVATE_SCRIPT).unwrap();
        run_command(Command::new("cp").arg("-r").arg(&self.repository).arg(root.join("testbed")));
        let id = run_docker(&["create", "--network", "none", BASE_IMAGE, "sh", "-c", &setup]);
        let whole = format!("{}/.", root.display());
        // Copy the files as an archive, so that root owns all of them in the container.
        let pack = "tar -C \"$1\" --owner=0 --group=0 -c . | docker cp - \"$2\":/";
        run_command(Command::new("sh").args(["-c", pack, "sh", &whole, &id]));
        run_docker(&["start", "-a", &id]);
        run_docker(&["commit", &id, &image]);
        run_docker(&["rm", &id]);
    }

    /// Returns the id of the row's image.
    pub fn image_id(&self) -> String {
        run_docker(&["image", "inspect", "-f", "{{.Id}}", self.value["image"].as_str().unwrap()])
    }

    /// Writes a tasks file with only this row.
    pub fn write_tasks(&self, file: &Path) -> String {
        fs::write(file, format!("{}\n", self.value)).unwrap();
        file.to_str().unwrap().to_owned()
    }
}

/// Returns the script of a SWE-bench 5.x row, except that the package is not reinstalled.
fn eval_script(base: &str, test_patch: &str) -> String {
    format!(
        "#!/bin/bash\nset -uxo pipefail\nsource /opt/miniconda3/bin/activate\n\
         conda activate testbed\ncd /testbed\ngit config --global --add safe.directory /testbed\n\
         cd /testbed\ngit status\ngit show\ngit -c core.fileMode=false diff {base}\n\
         source /opt/miniconda3/bin/activate\nconda activate testbed\n\
         git checkout {base} {TESTS}\ngit apply -v - <<'EOF_114329324912'\n{test_patch}\n\
         EOF_114329324912\n: '>>>>> Start Test Output'\npytest -rA {TESTS}\n\
         : '>>>>> End Test Output'\ngit checkout {base} {TESTS}\n"
    )
}

/// Downloads pytest and its dependencies, because the image has no network access.
fn download_wheels(scratch: &Path, destination: &Path) {
    let venv = scratch.join("pip");
    run_command(Command::new("python3").args(["-m", "venv"]).arg(&venv));
    run_command(
        Command::new(venv.join("bin/pip"))
            .args(["download", "-q", "--only-binary=:all:", "--python-version=3.11", PYTEST, "-d"])
            .arg(destination),
    );
}

/// Replaces the content of a folder with a release of the library.
fn check_out(folder: &Path, version: &str, sha256: &str, sources: &Path) {
    let source =
        Source::Pypi { pypi: "boltons".into(), version: version.into(), sha256: sha256.into() };
    let sources = Sources::new(sources);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let tree = runtime.block_on(sources.fetch(&source, Path::new("."))).unwrap();
    // The library's own pytest configuration does not work with current versions of pytest.
    let script = "find . -mindepth 1 -maxdepth 1 ! -name .git -exec rm -rf {} + && \
                  cp -r \"$1\"/. . && rm -rf *.egg-info PKG-INFO .github pytest.ini tox.ini";
    run_command(
        Command::new("sh").args(["-c", script, "sh"]).arg(&tree.folder).current_dir(folder),
    );
}

fn git(folder: &Path, args: &[&str]) -> String {
    let who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
    let when = "2024-11-01T00:00:00Z";
    run_command(
        Command::new("git")
            .args(who)
            .args(args)
            .current_dir(folder)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_AUTHOR_DATE", when)
            .env("GIT_COMMITTER_DATE", when),
    )
}

/// Returns the output of `git diff`. It is not trimmed, because its last line may be blank context.
pub fn diff(folder: &Path, diff_args: &[&str]) -> String {
    let file = folder.join(".git/proctor-diff");
    let output = format!("--output={}", file.display());
    git(folder, &[["diff", "--binary", output.as_str()].as_slice(), diff_args].concat());
    let text = fs::read_to_string(&file).unwrap();
    fs::remove_file(file).unwrap();
    text
}

fn run_docker(args: &[&str]) -> String {
    run_command(Command::new("docker").args(args))
}

/// Runs a command to completion. Returns its output, trimmed.
fn run_command(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}
