//! Creates rows like the benchmark's by removing functions from real libraries.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

use super::image::{BOLTONS, Library, MISTUNE};

pub const SETUP: &str = "from setuptools import setup, find_packages
setup(
    name=\"agent_code\",
    version=\"0.1\",
    packages=find_packages(),
)
";

/// A row, with a patch that solves it.
pub struct SolvedRow {
    pub row: Value,
    pub solution: String,
    /// On level 2, a patch that uses the original library instead of its own code.
    pub shortcut_patch: Option<String>,
}

impl SolvedRow {
    pub fn id(&self) -> &str {
        self.row["instance_id"].as_str().unwrap()
    }
}

/// A path, and the file's text before and after; `None` if the file does not exist.
type Edit<'a> = (&'a str, Option<&'a str>, Option<&'a str>);

/// Returns the diff between two states, in the format of `git diff`.
fn diff(edits: &[Edit<'_>]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let git = |args: &[&str]| {
        let output = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"])
            .args(args)
            .current_dir(folder.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let lay = |path: &str, text: Option<&str>| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match text {
            Some(text) => fs::write(path, text).unwrap(),
            None => drop(fs::remove_file(path)),
        }
    };
    git(&["init", "-q", "."]);
    edits.iter().for_each(|(path, before, _)| lay(path, *before));
    git(&["add", "-A"]);
    git(&["commit", "-q", "--allow-empty", "-m", "before"]);
    edits.iter().for_each(|(path, _, after)| lay(path, *after));
    git(&["add", "-A"]);
    git(&["diff", "--cached"])
}

/// Splits the text of a module. Returns the functions and classes with these names, and the rest.
fn split_module(text: &str, names: &[&str]) -> (String, String) {
    let (mut taken, mut rest) = (String::new(), String::new());
    let mut inside = false;
    for line in text.split_inclusive('\n') {
        if line.starts_with(|c: char| !c.is_whitespace() && c != ')') {
            let begins = |name: &&str| {
                let word = |keyword: &str| {
                    let after = line.strip_prefix(&format!("{keyword} {name}"));
                    after.is_some_and(|after| after.starts_with(['(', ':']))
                };
                word("def") || word("class")
            };
            inside = names.iter().any(begins);
        }
        let part = if inside { &mut taken } else { &mut rest };
        part.push_str(line);
    }
    assert!(!taken.is_empty(), "{names:?} are missing");
    (taken, rest)
}

/// Returns a row that contains all columns of the published dataset.
fn dataset_row(
    library: &Library,
    test_file: &str,
    level: u32,
    patch: &str,
    test_patch: &str,
) -> Value {
    let settings = json!({
        "repository": library.repo, "commit": library.version, "clone_method": "https",
        "base_url": null, "base_image": "python312", "rebuild_base_image": false,
        "rebuild_instance_image": false, "custom_instance_image_build": [], "pre_install": [],
        "install": "pip install -e .", "pip_packages": [],
        "docker_specs": {
            "run_args": {
                "cuda_visible_num": null, "number_once": 1, "shm_size": null, "cap_add": []
            },
            "custom_docker_args": []
        },
        "use_uv": false, "test_scanner_cmd": "pytest --collect-only", "timeout_scanner": 300,
        "test_cmd": "pytest -rA -p no:cacheprovider --color=no", "timeout_run": 120,
        "timeout_one": 30, "min_p2p_files": 1, "max_p2p_files": 5,
        "library_name": library.name,
        "black_links": [format!("https://github.com/{}", library.repo)]
    });
    let stem = Path::new(test_file).file_stem().unwrap().to_str().unwrap();
    let id = library.repo.replace('/', "__");
    let commit = library.sha256;
    json!({
        "instance_id": format!("{id}.{}.{stem}.{}.lv{level}", &commit[..8], &commit[8..16]),
        "patch": patch, "test_patch": test_patch, "FAIL_TO_PASS": [test_file], "PASS_TO_PASS": [],
        "image_name": library.image_name(), "repo": library.repo, "base_commit": &commit[..40],
        "problem_statement": format!(
            "## Task\nPlease complete it.\n\n**NOTE**: \n- This test is derived from the `{}` \
             library.\n\nYou are forbidden to access the following URLs:\nblack_links:\n\n\
             ## Interface Descriptions\n\n### Interface Description 1\n", library.name),
        "repo_settings": settings.to_string()
    })
}

/// Returns a level 1 row, in which functions are removed from a module together with a test file.
fn level_1_row(
    library: &Library,
    module: &str,
    names: &[&str],
    test_file: &str,
    pass_to_pass: &[&str],
) -> SolvedRow {
    let (whole, tested) = (library.read_file(module), library.read_file(test_file));
    let (_, masked) = split_module(&whole, names);
    let patch = diff(&[(module, Some(&whole), Some(&masked))]);
    let test_patch = diff(&[(test_file, Some(&tested), None)]);
    let mut row = dataset_row(library, test_file, 1, &patch, &test_patch);
    row["PASS_TO_PASS"] = json!(pass_to_pass);
    SolvedRow {
        row,
        solution: diff(&[(module, Some(&masked), Some(&whole))]),
        shortcut_patch: None,
    }
}

/// Returns a level 2 row, in which a test file imports from `agent_code` what it originally
/// imported from the library.
fn level_2_row(
    library: &Library,
    test_file: &str,
    rewritten_test: &str,
    module: &str,
    (path, text, names): (&str, &str, &[&str]),
) -> SolvedRow {
    let test_patch =
        diff(&[(test_file, Some(&library.read_file(test_file)), Some(rewritten_test))]);
    let submission = |init: &str, more: Option<Edit<'_>>| {
        let mut edits =
            vec![("setup.py", None, Some(SETUP)), ("agent_code/__init__.py", None, Some(init))];
        edits.extend(more);
        diff(&edits)
    };
    let names = names.join(", ");
    let stem = Path::new(path).file_stem().unwrap().to_str().unwrap();
    let solution =
        submission(&format!("from .{stem} import {names}\n"), Some((path, None, Some(text))));
    let trick = submission(&format!("from {module} import {names}\n"), None);
    let mut row = dataset_row(library, test_file, 2, "", &test_patch);
    // The published rows don't contain gold patches.
    row["gold"] = json!(solution);
    SolvedRow { row, solution, shortcut_patch: Some(trick) }
}

/// Replaces the names where they occur as identifiers.
fn qualify_names(text: &str, names: &[&str]) -> String {
    let mut out = text.to_owned();
    for name in names {
        let parts: Vec<&str> = out.split(name).collect();
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let mut next = parts[0].to_owned();
        for part in &parts[1..] {
            let free = !next.ends_with(is_word) && !part.starts_with(|c| c != '.' && is_word(c));
            next.push_str(if free { "agent_code." } else { "" });
            next.push_str(name);
            next.push_str(part);
        }
        out = next;
    }
    out
}

pub fn level_1_rows() -> Vec<SolvedRow> {
    vec![
        level_1_row(
            &BOLTONS,
            "boltons/strutils.py",
            &["parse_int_list", "format_int_list"],
            "tests/test_strutils.py",
            &["tests/test_listutils.py", "tests/test_mathutils.py"],
        ),
        level_1_row(
            &MISTUNE,
            "src/mistune/plugins/def_list.py",
            &["_collect_definitions", "_scan_definition_tail", "_get_line"],
            "tests/test_def_list.py",
            &["tests/test_hooks.py"],
        ),
    ]
}

pub fn level_2_rows() -> Vec<SolvedRow> {
    // The tests also use functions of the library that are not requested.
    let names = ["parse_int_list", "format_int_list"];
    let (lists, _) = split_module(&BOLTONS.read_file("boltons/strutils.py"), &names);
    let lists = format!("import collections\n\n\n{lists}");
    let mut test = BOLTONS.read_file("tests/test_strutils.py");
    for name in names {
        test = test.replace(&format!("strutils.{name}"), &format!("agent_code.{name}"));
    }
    let test = format!("import agent_code\n{test}");
    let lists = level_2_row(
        &BOLTONS,
        "tests/test_strutils.py",
        &test,
        "boltons.strutils",
        ("agent_code/lists.py", &lists, &names),
    );
    // The tests use nothing else from the library.
    let names = ["clamp", "ceil", "floor", "Bits"];
    let import = "from boltons.mathutils import clamp, ceil, floor, Bits\n";
    let test = BOLTONS.read_file("tests/test_mathutils.py");
    assert!(test.contains(import));
    let test = format!("import agent_code\n{}", qualify_names(&test.replace(import, ""), &names));
    let text = BOLTONS.read_file("boltons/mathutils.py");
    let numbers = level_2_row(
        &BOLTONS,
        "tests/test_mathutils.py",
        &test,
        "boltons.mathutils",
        ("agent_code/numbers.py", &text, &names),
    );
    // The requested functions operate on objects of the library.
    let names = ["add_toc_hook", "render_toc_ul"];
    let import = "from mistune.toc import add_toc_hook, render_toc_ul\n";
    let test = MISTUNE.read_file("tests/test_hooks.py");
    assert!(test.contains(import));
    let test = format!("import agent_code\n{}", qualify_names(&test.replace(import, ""), &names));
    let text = MISTUNE
        .read_file("src/mistune/toc.py")
        .replace("from .core import BlockState\nfrom .util import escape, striptags\n", TOC)
        .replace("BlockState())", "type(parent)())");
    let toc = level_2_row(
        &MISTUNE,
        "tests/test_hooks.py",
        &test,
        "mistune.toc",
        ("agent_code/toc.py", &text, &names),
    );
    vec![lists, numbers, toc]
}

const TOC: &str = "from html import escape as _escape


def escape(text):
    return _escape(text)


def striptags(text):
    return re.sub(r\"(<!--.*?-->|<[^>]*>)\", \"\", text)

";

/// Returns a patch that adds a conftest, which makes every test pass or every test fail.
pub fn conftest_patch(passes: bool) -> String {
    let outcome = if passes { "passed" } else { "failed" };
    let text = format!(
        "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\n\
         def pytest_runtest_makereport(item, call):\n    report = (yield).get_result()\n    \
         report.outcome = {outcome:?}\n    report.longrepr = None\n"
    );
    diff(&[("conftest.py", None, Some(&text))])
}

/// Returns a patch without the part for one file.
pub fn without_file(patch: &str, file: &str) -> String {
    let header = "diff --git ";
    let kept = patch.split(header).filter(|part| !part.is_empty());
    let kept = kept.filter(|part| !part.starts_with(&format!("a/{file} ")));
    kept.map(|part| format!("{header}{part}")).collect()
}
