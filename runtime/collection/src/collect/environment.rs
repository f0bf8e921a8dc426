//! The environment in which a project's tests run, and the commands that build it.

use std::time::Duration;

use proctor_sandbox_api::{Base, LayerSpec, SourceTree, wire::RawPath};
use serde::{Deserialize, Serialize};

use super::{
    project::{Project, python_condition, requirement_name},
    settings::Settings,
};

pub(crate) const WORKDIR: &str = "/testbed";
pub(crate) const PYTHON: &str = "/venv/bin/python";
const PIP_INSTALL: &str =
    "/venv/bin/pip install --quiet --no-cache-dir --disable-pip-version-check";
/// Removes the description from the installed project's metadata. The description contains the
/// README, which often repeats an example from a removed docstring. The leak check would then
/// reject the task.
const STRIP_DESCRIPTION: &str = "for file in /venv/lib/python3*/site-packages/*.dist-info/direct_url.json; \
     do [ ! -f $file ] || sed -i '/^\\r*$/,$d' ${file%/*}/METADATA; done";
/// pip's temporary directory. After the installation, it contains the packages that pip used to
/// build the project.
const PIP_BUILD_DIR: &str = "/venv/build";
/// Constraints file for the build. Both environment variables are set, because since pip 25.3,
/// build environments ignore `PIP_CONSTRAINT` and use `PIP_BUILD_CONSTRAINT`.
const BUILD_PINS_FILE: &str = "/venv/build-pins.txt";
/// Python code that prints the project's requirements, as listed in its metadata after
/// installation.
const PRINT_REQUIREMENTS: &str = "import importlib.metadata as m; print(*sorted({line for it in m.distributions() if \
     it.read_text(\"direct_url.json\") or str(it.locate_file(\"\")).startswith(\"/testbed\") for line in it.requires or ()}), \
     sep=\"\\n\")";
const BUILD_TIMEOUT: Duration = Duration::from_secs(1800);

/// The environment of all tasks from one project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Environment {
    /// Setup commands, with every package pinned.
    pub(crate) setup: Vec<String>,
    /// Modules that could not be imported and that no known package provides.
    pub(crate) missing: Vec<String>,
    /// The Python version, such as `Python 3.11.2`.
    pub(crate) python: String,
    /// The test command of every task.
    pub(crate) test_command: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct InstalledPackages {
    pub(crate) pins: Vec<String>,
    /// Whether the project is installed in editable mode.
    pub(crate) is_editable: bool,
    /// Pins of the packages that were used to build the project.
    pub(crate) build_pins: Vec<String>,
    /// The Python version, such as `Python 3.11.2`.
    pub(crate) python: String,
}

/// Returns the environment variables for a task's sandboxes. `PYTHONPATH` points to the source
/// tree.
pub(crate) fn env_vars(project: &Project) -> Vec<(String, String)> {
    let path = match project.root.as_str() {
        "." => WORKDIR.to_owned(),
        below => format!("{WORKDIR}/{below}"),
    };
    vec![("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned()), ("PYTHONPATH".to_owned(), path)]
}

/// Returns a layer with the source and the given setup commands.
pub(crate) fn source_layer(
    source: &SourceTree,
    project: &Project,
    setup: Vec<String>,
) -> LayerSpec {
    LayerSpec {
        base: Base::Host,
        source: Some(SourceTree { destination: RawPath::from(WORKDIR), ..source.clone() }),
        setup,
        workdir: RawPath::from(WORKDIR),
        env: env_vars(project),
        time_limit: BUILD_TIMEOUT,
    }
}

/// Returns the setup commands used before packages are pinned. The commands skip packages that
/// cannot be installed. Imports that fail later show which packages are missing.
pub(super) fn setup_commands(
    project: &Project,
    settings: &Settings,
    extra_commands: &[String],
) -> Vec<String> {
    let mut out = vec![create_venv_command(project, settings)];
    out.push(format!("{PIP_INSTALL} {}", quote_all(&settings.environment.pytest)));
    let all_requirements: Vec<String> =
        project.requirements.iter().chain(extra_commands).cloned().collect();
    if !all_requirements.is_empty() {
        let all = quote_all(&all_requirements);
        out.push(format!(
            "{PIP_INSTALL} {all} || for name in {all}; do {PIP_INSTALL} \"$name\" || true; done"
        ));
    }
    if project.installable {
        // First, install the project without dependencies. `PIP_BUILD_DIR` then contains only the
        // project's own build requirements.
        out.push(format!(
            "mkdir {PIP_BUILD_DIR} && TMPDIR={PIP_BUILD_DIR} {PIP_INSTALL} --no-clean --no-deps --editable . || true"
        ));
        out.push(format!(
            "{PYTHON} -I -c '{PRINT_REQUIREMENTS}' >/venv/needed.txt; {PIP_INSTALL} -r /venv/needed.txt || while read -r name; do {PIP_INSTALL} \
             \"$name\" || true; done </venv/needed.txt"
        ));
    }
    out
}

/// Returns a command that lists the packages used to build the project, including their versions:
/// its static build requirements, and the packages that the build back end requested. The command
/// prints nothing if the project was built with the packages in `/venv`.
pub(crate) fn list_build_packages_command() -> String {
    format!(
        "set --; for folder in {PIP_BUILD_DIR}/pip-build-env-*/*/lib*/python*/site-packages; do [ ! -d \"$folder\" ] || set -- \
         \"$@\" --path \"$folder\"; done; [ $# -eq 0 ] || {PYTHON} -I -m pip --disable-pip-version-check freeze --all \"$@\""
    )
}

pub(super) fn pinned_setup_commands(
    project: &Project,
    settings: &Settings,
    installed_packages: &InstalledPackages,
) -> Vec<String> {
    let mut out = vec![create_venv_command(project, settings)];
    out.push(format!("{PIP_INSTALL} --no-deps {}", quote_all(&installed_packages.pins)));
    if installed_packages.is_editable {
        // Install the project for its metadata and entry points. Python imports its code from the
        // source tree.
        let install = format!("{PIP_INSTALL} --no-deps --editable .");
        out.push(match &installed_packages.build_pins[..] {
            [] => install,
            pins => format!(
                "printf '%s\\n' {} >{BUILD_PINS_FILE} && PIP_CONSTRAINT={BUILD_PINS_FILE} PIP_BUILD_CONSTRAINT={BUILD_PINS_FILE} \
                 {install} && rm {BUILD_PINS_FILE}",
                quote_all(pins)
            ),
        });
        out.push(STRIP_DESCRIPTION.to_owned());
    }
    out
}

/// Returns a command that creates `/venv` with the first available interpreter that the project
/// supports.
fn create_venv_command(project: &Project, settings: &Settings) -> String {
    let condition = python_condition(&project.requires_python);
    let names = settings.environment.pythons.join(" ");
    let wanted = match project.requires_python.as_str() {
        "" => "no Python 3 with venv".to_owned(),
        requires => format!("no Python {requires} with venv"),
    };
    let wanted = wanted.replace(['\'', '"'], "");
    format!(
        "for python in {names}; do command -v $python >/dev/null && $python -c 'import sys; v = \
         sys.version_info[:3]; sys.exit(not ({condition}))' && $python -m venv /venv && exit 0; done; \
         echo '{wanted}' >&2; exit 1"
    )
}

fn quote_all(names: &[String]) -> String {
    let quoted: Vec<String> =
        names.iter().map(|name| format!("'{}'", name.replace('\'', "\""))).collect();
    quoted.join(" ")
}

/// Returns the pins in the output of `pip freeze`, without the project and pip.
pub(crate) fn parse_pins(freeze_output: &str, project: &Project) -> Vec<String> {
    let project_name = proctor_types::normalize_package_name(&project.name);
    let mut out: Vec<String> = freeze_output
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with(['#', '-']))
        .filter(|line| {
            let name = proctor_types::normalize_package_name(requirement_name(line));
            name != project_name && name != "pip"
        })
        .map(str::to_owned)
        .collect();
    out.sort();
    out.dedup();
    out
}

/// Returns pins for the packages that were used to build a project. A package that was used in two
/// versions cannot be pinned.
pub(crate) fn parse_build_pins(freeze_output: &str, project: &Project) -> Vec<String> {
    let all = parse_pins(freeze_output, project);
    let name = |pin: &String| proctor_types::normalize_package_name(requirement_name(pin));
    let once = |pin: &&String| all.iter().filter(|other| name(other) == name(pin)).count() == 1;
    // Skip files and URLs, because some pip versions don't accept them as constraints.
    all.iter().filter(once).filter(|pin| pin.contains("==")).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_pins_excludes_the_project_and_pip() {
        let project = Project { name: "My_Pkg".into(), ..Project::default() };
        let frozen = "pytest==8.4.2\n-e /testbed\n# x\nmy-pkg==1\npip==23.0\nattrs==24.1\n";
        assert_eq!(parse_pins(frozen, &project), ["attrs==24.1", "pytest==8.4.2"]);
    }

    #[test]
    fn pinned_setup_commands_constrain_build_requirements() {
        let settings = Settings::get().unwrap();
        let project = Project { name: "pkg".into(), installable: true, ..Project::default() };
        let frozen = "hatchling==1.33.0\npkg==1\neditables==0.6\na==1\nA==2\nhatchling==1.33.0\nb @ file:///b\n";
        let built_with = parse_build_pins(frozen, &project);
        assert_eq!(built_with, ["editables==0.6", "hatchling==1.33.0"]);
        let mut installed = InstalledPackages {
            pins: vec!["six==1.17.0".into()],
            is_editable: true,
            build_pins: built_with,
            ..InstalledPackages::default()
        };
        let lines = pinned_setup_commands(&project, settings, &installed);
        for part in [
            "printf '%s\\n' 'editables==0.6' 'hatchling==1.33.0' >/venv/build-pins.txt && ",
            " PIP_BUILD_CONSTRAINT=/venv/build-pins.txt /venv/bin/pip install ",
            " --no-deps --editable . && rm /venv/build-pins.txt",
        ] {
            assert!(lines[2].contains(part), "{part}: {lines:?}");
        }
        installed.build_pins.clear();
        let lines = pinned_setup_commands(&project, settings, &installed);
        assert_eq!(lines[2], format!("{PIP_INSTALL} --no-deps --editable ."));
    }

    #[test]
    fn interpreter_search_follows_requires_python() {
        let settings = Settings::get().unwrap();
        let project = Project { requires_python: ">=3.12".into(), ..Project::default() };
        let line = create_venv_command(&project, settings);
        assert!(line.contains("not (v>=(3,12,))") && line.contains("python3.13"), "{line}");
    }
}
