//! Reads a project's metadata and layout from its source tree, without running any of the project's
//! code.

use std::{collections::BTreeSet, fs, path::Path};

use proctor_types::normalize_package_name;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::{
    poetry,
    settings::{EnvironmentSettings, Layout},
};

/// A project's metadata and layout.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Project {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) summary: String,
    pub(crate) requires_python: String,
    /// Packages that the tests need. They come from extras, dependency groups or requirements
    /// files.
    pub(crate) requirements: Vec<String>,
    pub(crate) urls: Vec<String>,
    /// The directory that contains the packages: `.`, `src` or `lib`.
    pub(crate) root: String,
    /// Paths of the project's Python files, except for tests.
    pub(crate) modules: Vec<String>,
    /// Test directories to pass to pytest. Empty if the project's configuration sets `testpaths`.
    pub(crate) tests: Vec<String>,
    /// Whether pip can install the project.
    pub(crate) installable: bool,
}

impl Project {
    pub(crate) fn read(tree: &Path, settings: &EnvironmentSettings, layout: &Layout) -> Self {
        let text = |name: &str| fs::read_to_string(tree.join(name)).unwrap_or_default();
        let pyproject: Table = text("pyproject.toml").parse().unwrap_or_default();
        let metadata = text("PKG-INFO");
        let headers: Vec<(&str, &str)> = metadata
            .lines()
            .take_while(|line| !line.is_empty())
            .filter_map(|line| line.split_once(": "))
            .collect();
        let header =
            |key: &str| headers.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
        let project = pyproject.get("project").and_then(Value::as_table);
        let poetry_table = value_at_path(&pyproject, &["tool", "poetry"]).and_then(Value::as_table);
        let own = |key: &str| {
            let found = project.and_then(|table| table.get(key)?.as_str());
            found.or_else(|| poetry_table.and_then(|table| table.get(key)?.as_str()))
        };
        let mut out = Self {
            name: header("Name").or(own("name")).unwrap_or_default().to_owned(),
            version: header("Version").or(own("version")).unwrap_or_default().to_owned(),
            summary: header("Summary").or(own("description")).unwrap_or_default().to_owned(),
            requires_python: header("Requires-Python")
                .or(own("requires-python"))
                .map(str::to_owned)
                .or_else(|| poetry::requires_python(poetry_table))
                .unwrap_or_default(),
            installable: ["pyproject.toml", "setup.py"]
                .iter()
                .any(|name| tree.join(name).is_file()),
            ..Self::default()
        };
        let mut extras: BTreeSet<&str> =
            headers.iter().filter(|(key, _)| *key == "Provides-Extra").map(|(_, it)| *it).collect();
        let optional = project.and_then(|table| table.get("optional-dependencies")?.as_table());
        extras.extend(optional.into_iter().flatten().map(|(name, _)| name.as_str()));
        // Use the extra's requirements, but don't install the extra itself. That would also install
        // the tools that are excluded below.
        let extra = settings.extras.iter().find(|name| extras.contains(name.as_str()));
        if let Some(extra) = extra {
            let listed = optional.and_then(|table| table.get(extra)?.as_array());
            let said =
                headers.iter().filter(|(key, _)| *key == "Requires-Dist").filter_map(|(_, it)| {
                    let (what, marker) = it.split_once(';')?;
                    let ours = [format!("extra == '{extra}'"), format!("extra == \"{extra}\"")];
                    ours.iter().any(|it| marker.trim() == *it).then(|| what.trim().to_owned())
                });
            match listed {
                Some(listed) => out.requirements.extend(string_values(listed)),
                None => out.requirements.extend(said),
            }
        }
        let groups = pyproject.get("dependency-groups").and_then(Value::as_table);
        if let Some(groups) = groups
            && let Some(name) = settings.groups.iter().find(|name| groups.contains_key(*name))
        {
            add_group_requirements(groups, name, 0, &mut out.requirements);
        }
        out.requirements.extend(poetry::test_requirements(poetry_table, settings));
        let file = settings.requirements.iter().find(|name| tree.join(name).is_file());
        out.requirements
            .extend(file.into_iter().flat_map(|name| parse_requirements_file(&text(name))));
        let wanted = |requirement: &String| {
            let name = normalize_package_name(requirement_name(requirement));
            !name.is_empty() && !settings.left_out.contains(&name)
        };
        out.requirements.retain(wanted);
        let mut seen = BTreeSet::new();
        out.requirements.retain(|requirement| seen.insert(requirement.clone()));
        out.urls = project_urls(&headers, project, poetry_table);
        out.find_modules(tree, layout);
        let configured = value_at_path(&pyproject, &["tool", "pytest", "ini_options", "testpaths"])
            .is_some()
            || ["pytest.ini", "tox.ini", "setup.cfg"]
                .iter()
                .any(|name| text(name).lines().any(|line| line.starts_with("testpaths")));
        if !configured {
            let folders = ["tests", "test"].into_iter().filter(|name| tree.join(name).is_dir());
            out.tests = folders.map(str::to_owned).collect();
        }
        out
    }

    /// Finds the directory that contains the packages, and the packages' Python files.
    fn find_modules(&mut self, tree: &Path, layout: &Layout) {
        for root in ["src", "lib", "."] {
            let (mut modules, mut of_tests) = (Vec::new(), Vec::new());
            for name in entry_names(&tree.join(root)) {
                let path = tree.join(root).join(&name);
                let below = if root == "." { name.clone() } else { format!("{root}/{name}") };
                if path.join("__init__.py").is_file() && !layout.outside.contains(&name) {
                    let is_named =
                        normalize_package_name(&name) == normalize_package_name(&self.name);
                    let into = match !is_named && contains_tests(&path) {
                        true => &mut of_tests,
                        false => &mut modules,
                    };
                    collect_python_files(tree, &below, layout, into);
                } else if is_module(&name, layout) && path.is_file() {
                    modules.push(below);
                }
            }
            // If this is the only package, it contains both code and tests.
            if modules.is_empty() {
                modules = of_tests;
            }
            if !modules.is_empty() {
                modules.sort();
                self.root = root.to_owned();
                self.modules = modules;
                return;
            }
        }
        self.root = ".".to_owned();
    }

    /// Returns the packages inside namespace packages, which are not supported. An example is
    /// `jaraco.text` if `jaraco` has no `__init__.py`.
    pub(crate) fn namespace_packages(tree: &Path, layout: &Layout) -> Vec<String> {
        let mut out = BTreeSet::new();
        for root in ["src", "lib", "."] {
            for space in entry_names(&tree.join(root)) {
                let folder = tree.join(root).join(&space);
                let is_own = space.starts_with('.') || layout.outside.contains(&space);
                if is_own
                    || ["src", "lib"].contains(&&*space)
                    || folder.join("__init__.py").is_file()
                {
                    continue;
                }
                let inner = entry_names(&folder).into_iter();
                let inner = inner.filter(|name| folder.join(name).join("__init__.py").is_file());
                out.extend(inner.map(|name| format!("{space}.{name}")));
            }
        }
        out.into_iter().collect()
    }

    /// Returns the repository as `owner/name` if one of the project's URLs is on a known forge.
    pub(crate) fn repository(&self) -> Option<String> {
        self.urls.iter().find_map(|url| {
            let rest = url.split_once("://")?.1;
            let rest = rest.strip_prefix("www.").unwrap_or(rest);
            let mut parts = rest.trim_end_matches('/').split('/');
            let host = parts.next()?;
            let (owner, name) = (parts.next()?, parts.next()?.trim_end_matches(".git"));
            (["github.com", "gitlab.com", "codeberg.org"].contains(&host) && owner != "sponsors")
                .then(|| format!("{owner}/{name}"))
        })
    }
}

fn is_module(name: &str, layout: &Layout) -> bool {
    name.strip_suffix(".py").is_some_and(|stem| {
        !layout.not_modules.iter().any(|other| other == stem) && !is_test_name(name)
    })
}

/// Whether pytest treats a file with this name as a test file or a `conftest.py`.
pub(crate) fn is_test_name(name: &str) -> bool {
    name.starts_with("test_") || name.ends_with("_test.py") || name == "conftest.py"
}

/// Whether most Python files directly in a directory are tests. If so, the directory does not count
/// as one of the project's packages.
fn contains_tests(folder: &Path) -> bool {
    let code = entry_names(folder).into_iter().filter(|name| name.ends_with(".py"));
    let (tests, others): (Vec<String>, Vec<String>) =
        code.filter(|name| name != "__init__.py").partition(|name| is_test_name(name));
    tests.len() > others.len()
}

fn entry_names(folder: &Path) -> Vec<String> {
    let listing = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut out: Vec<String> =
        listing.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    out.sort();
    out
}

fn collect_python_files(tree: &Path, directory: &str, layout: &Layout, out: &mut Vec<String>) {
    for name in entry_names(&tree.join(directory)) {
        let path = format!("{directory}/{name}");
        if tree.join(&path).is_dir() {
            if !layout.outside.contains(&name) && !name.starts_with('.') {
                collect_python_files(tree, &path, layout, out);
            }
        } else if name.ends_with(".py") && !is_test_name(&name) {
            out.push(path);
        }
    }
}

fn value_at_path<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(table.get(*first)?, |value, key| value.get(key))
}

fn string_values(list: &[Value]) -> impl Iterator<Item = String> + '_ {
    list.iter().filter_map(Value::as_str).map(str::to_owned)
}

/// Adds the requirements of a dependency group and of any groups that it includes (PEP 735).
fn add_group_requirements(groups: &Table, name: &str, depth: usize, out: &mut Vec<String>) {
    let Some(list) = groups.get(name).and_then(Value::as_array).filter(|_| depth < 8) else {
        return;
    };
    for entry in list {
        match entry {
            Value::String(text) => out.push(text.clone()),
            Value::Table(table) => {
                if let Some(inner) = table.get("include-group").and_then(Value::as_str) {
                    add_group_requirements(groups, inner, depth + 1, out);
                }
            }
            _ => {}
        }
    }
}

/// Returns the requirements listed in a requirements file, without pip options or hashes.
fn parse_requirements_file(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| {
        let line = line.split(" #").next().unwrap_or_default();
        line.split(" --hash").next().unwrap_or_default().trim_end_matches('\\').trim()
    });
    lines
        .filter(|line| !line.is_empty() && !line.starts_with(['#', '-', '.', '/']))
        .map(str::to_owned)
        .collect()
}

/// Returns a requirement's name, without extras, version or marker.
pub(crate) fn requirement_name(requirement: &str) -> &str {
    let end = requirement.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)));
    requirement[..end.unwrap_or(requirement.len())].trim()
}

fn project_urls(
    headers: &[(&str, &str)],
    project: Option<&Table>,
    poetry: Option<&Table>,
) -> Vec<String> {
    let mut out = BTreeSet::new();
    for (key, value) in headers {
        match *key {
            "Home-page" | "Download-URL" => drop(out.insert(value.trim().to_owned())),
            "Project-URL" => {
                out.extend(value.split_once(',').map(|(_, url)| url.trim().to_owned()))
            }
            _ => {}
        }
    }
    let tables = project.and_then(|table| table.get("urls")?.as_table());
    out.extend(tables.into_iter().flatten().filter_map(|(_, url)| url.as_str().map(str::to_owned)));
    for key in ["homepage", "repository", "documentation"] {
        out.extend(poetry.and_then(|table| table.get(key)?.as_str().map(str::to_owned)));
    }
    out.retain(|url| url.starts_with("http"));
    out.into_iter().collect()
}

/// Converts `Requires-Python` to a Python condition on the version tuple `v`. An interpreter can
/// check this condition without installed packages. Clauses that cannot be converted are dropped.
/// If the interpreter violates one of them, pip reports that later.
pub(crate) fn python_condition(requires: &str) -> String {
    let clause = |part: &str| -> Option<String> {
        let part = part.trim();
        let (operator, version) = ["~=", ">=", "<=", "!=", "==", ">", "<"]
            .iter()
            .find_map(|operator| Some((*operator, part.strip_prefix(operator)?.trim())))?;
        let star = version.ends_with(".*");
        let numbers: Vec<u32> = version
            .trim_end_matches(".*")
            .split('.')
            .map(str::parse)
            .collect::<Result<_, _>>()
            .ok()?;
        let tuple: String = numbers.iter().map(|number| format!("{number},")).collect();
        Some(match (operator, star) {
            ("==" | "!=", true) => format!("v[:{}]{operator}({tuple})", numbers.len()),
            ("~=", _) => {
                let same = &numbers[..numbers.len().saturating_sub(1)];
                let upper: String = same.iter().map(|number| format!("{number},")).collect();
                format!("v>=({tuple}) and v[:{}]==({upper})", same.len())
            }
            _ => format!("v{operator}({tuple})"),
        })
    };
    let clauses: Vec<String> = requires.split(',').filter_map(clause).collect();
    if clauses.is_empty() { "True".to_owned() } else { clauses.join(" and ") }
}

#[cfg(test)]
mod tests {
    use super::{super::settings::Settings, *};

    fn read_project(files: &[(&str, &str)]) -> Project {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let settings = Settings::get().unwrap();
        Project::read(dir.path(), &settings.environment, &settings.layout)
    }

    #[test]
    fn read_returns_metadata_requirements_and_layout() {
        let project = read_project(&[
            (
                "PKG-INFO",
                "Metadata-Version: 2.3\nName: A-Pkg\nVersion: 1.2\nSummary: Does it.\n\
                 Requires-Python: >=3.8\nProject-URL: Docs, https://docs.test/\n\
                 Project-URL: Source, https://github.com/o/n/\nProvides-Extra: test\n\
                 Requires-Dist: nose>1; extra == 'test'\nRequires-Dist: mypy; extra == 'test'\n\nName: No\n",
            ),
            (
                "pyproject.toml",
                "[dependency-groups]\ndev = ['x>1', {include-group = 'more'}]\nmore = ['y', 'ruff']\n\
                 [tool.pytest.ini_options]\ntestpaths = ['tests']\n",
            ),
            ("src/pkg/__init__.py", ""),
            ("src/pkg/sub/a.py", ""),
            ("src/pkg/tests/test_a.py", ""),
            ("tests/test_b.py", ""),
            (
                "requirements/tests.txt",
                "-r more.txt\nz==1 ; python_version > '3' --hash=sha256:ab \\\n  # via -r x\ntox # why\n",
            ),
        ]);
        assert_eq!((project.name.as_str(), project.version.as_str()), ("A-Pkg", "1.2"));
        assert_eq!(project.requirements, ["nose>1", "x>1", "y", "z==1 ; python_version > '3'"]);
        assert_eq!(project.root, "src");
        assert_eq!(project.modules, ["src/pkg/__init__.py", "src/pkg/sub/a.py"]);
        assert_eq!(project.repository().as_deref(), Some("o/n"));
        assert!(project.tests.is_empty(), "the configuration sets testpaths");
    }

    #[test]
    fn read_supports_folder_without_metadata() {
        let project = read_project(&[
            ("setup.py", ""),
            ("one.py", ""),
            ("test_one.py", ""),
            ("conftest.py", ""),
            ("test/test_two.py", ""),
        ]);
        assert_eq!(
            (project.root.as_str(), &project.modules[..]),
            (".", &["one.py".to_owned()][..])
        );
        assert_eq!(project.tests, ["test"]);
        assert!(project.installable && project.name.is_empty());
    }

    #[test]
    fn test_folder_counts_as_package_only_if_there_is_no_other() {
        let tests = [
            ("unittests/__init__.py", ""),
            ("unittests/utility.py", ""),
            ("unittests/test_a.py", ""),
            ("unittests/test_b.py", ""),
        ];
        let package = [("pkg/__init__.py", ""), ("pkg/a.py", ""), ("pkg/test_a.py", "")];
        let both = read_project(&[&tests[..], &package[..]].concat());
        assert_eq!(both.modules, ["pkg/__init__.py", "pkg/a.py"]);
        let alone = read_project(&tests);
        assert_eq!(alone.modules, ["unittests/__init__.py", "unittests/utility.py"]);
    }

    #[test]
    fn namespace_packages_returns_dotted_names() {
        let dir = tempfile::tempdir().unwrap();
        for path in
            ["jaraco/text/__init__.py", "docs/sub/__init__.py", "src/zope/dotted/__init__.py"]
        {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let settings = Settings::get().unwrap();
        let found = Project::namespace_packages(dir.path(), &settings.layout);
        assert_eq!(found, ["jaraco.text", "zope.dotted"]);
        let project = Project::read(dir.path(), &settings.environment, &settings.layout);
        assert!(project.modules.is_empty());
    }

    #[test]
    fn python_condition_converts_requires_python() {
        assert_eq!(python_condition(">=3.8, !=3.9.*,<4"), "v>=(3,8,) and v[:2]!=(3,9,) and v<(4,)");
        assert_eq!(python_condition("~=3.8"), "v>=(3,8,) and v[:1]==(3,)");
        assert_eq!(python_condition(""), "True");
        assert_eq!(python_condition("nonsense"), "True");
    }
}
