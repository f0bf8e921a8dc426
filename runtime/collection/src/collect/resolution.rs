//! Finds the packages that a project's tests need.

use std::{collections::BTreeSet, path::Path};

use proctor_sandbox_api::{Backend, SourceTree};
use proctor_types::Fault;

use super::{
    environment::{Environment, PYTHON, pinned_setup_commands, setup_commands, source_layer},
    observe::{Mode, ObserveRequest, TestRunner},
    project::{Project, requirement_name},
    records::Record,
    settings::Settings,
};

/// Builds environments until all imports in the tests succeed or the maximum number of rounds is
/// reached. Each round adds the missing packages. The packages of the last environment are pinned.
///
/// # Errors
/// Fails with an environment fault, for example if there is no suitable interpreter or no package
/// index.
pub(crate) async fn resolve_environment(
    backend: &dyn Backend,
    source: &SourceTree,
    project: &Project,
    settings: &Settings,
    on_progress: &(dyn Fn(&str) + Send + Sync),
) -> Result<Environment, Fault> {
    let mut more: Vec<String> = Vec::new();
    let mut requested = BTreeSet::new();
    let mut round = 0;
    let mut newer: Option<Project> = None;
    loop {
        round += 1;
        let project = newer.as_ref().unwrap_or(project);
        let more_said = match more.is_empty() {
            true => String::new(),
            false => format!(", with {}", more.join(", ")),
        };
        on_progress(&format!("building the environment{more_said}"));
        let setup = setup_commands(project, settings, &more);
        let prepared = backend.prepare(&source_layer(source, project, setup)).await?;
        let bench = TestRunner::new(backend, &prepared, project, settings);
        let order = ObserveRequest::new(Mode::Collect, settings, project.tests.clone());
        let records = bench.observe(&order, "searching for tests").await;
        // The project may pin a pytest version that is too old for this interpreter.
        let finds =
            |records: &Vec<Record>| records.iter().any(|it| matches!(it, Record::Items { .. }));
        let limited = project.requirements.iter().any(|it| is_pytest(it));
        if limited && !records.as_ref().is_ok_and(finds) && newer.is_none() {
            on_progress("no tests found; trying the newest pytest instead of the project's own");
            let mut unlimited = project.clone();
            unlimited.requirements.retain(|it| !is_pytest(it));
            newer = Some(unlimited);
            continue;
        }
        let records = records?;
        let missing: BTreeSet<String> = records
            .iter()
            .filter_map(|record| match record {
                Record::Error { missing: Some(module), .. } => Some(module.clone()),
                _ => None,
            })
            .collect();
        let of_modules = missing
            .iter()
            .filter(|module| !is_project_module(project, &source.folder, module))
            .map(|module| package_for_module(settings, module));
        let wanted =
            of_modules.chain(records.iter().flat_map(|record| missing_plugins(settings, record)));
        let fresh: Vec<String> =
            wanted.filter(|package| requested.insert(package.clone())).collect();
        if fresh.is_empty() || round > settings.environment.rounds {
            let installed = bench.list_packages().await?;
            return Ok(Environment {
                setup: pinned_setup_commands(project, settings, &installed),
                missing: missing.into_iter().collect(),
                python: installed.python,
                test_command: test_command(settings, &installed.pins),
            });
        }
        more.extend(fresh);
    }
}

fn is_pytest(requirement: &str) -> bool {
    proctor_types::normalize_package_name(requirement_name(requirement)) == "pytest"
}

/// Whether a module belongs to the project. If so, a package with the same name on the index is a
/// different project.
fn is_project_module(project: &Project, tree: &Path, module: &str) -> bool {
    let top = module.split('.').next().unwrap_or(module);
    let of_package = project.modules.iter().any(|file| {
        file.split('/').any(|part| part == top || part.strip_suffix(".py") == Some(top))
    });
    let beside =
        [top.to_owned(), format!("{top}.py"), format!("tests/{top}.py"), format!("tests/{top}")];
    of_package || beside.iter().any(|path| tree.join(path).exists())
}

fn package_for_module(settings: &Settings, module: &str) -> String {
    let modules = &settings.environment.modules;
    let top = module.split('.').next().unwrap_or(module);
    modules.get(module).or_else(|| modules.get(top)).cloned().unwrap_or_else(|| top.to_owned())
}

/// Returns the packages that provide missing pytest plug-ins. pytest names a missing plug-in, or an
/// option that the plug-in provides.
fn missing_plugins(settings: &Settings, record: &Record) -> Vec<String> {
    let Record::Error { options, packages, .. } = record else { return Vec::new() };
    let known = &settings.environment.options;
    let package = |option: &String| {
        let is_of = |key: &String| {
            let rest = option.strip_prefix(key.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
        };
        known.iter().find(|(key, _)| is_of(key)).map(|(_, package)| package.clone())
    };
    packages.iter().cloned().chain(options.iter().filter_map(package)).collect()
}

/// Returns the test command. As in the collector's own runs, plug-ins that measure coverage or
/// start additional processes are disabled.
fn test_command(settings: &Settings, pins: &[String]) -> Vec<String> {
    let names: BTreeSet<String> = pins
        .iter()
        .map(|pin| proctor_types::normalize_package_name(requirement_name(pin)))
        .collect();
    let has = |module: &str| {
        names.contains(&proctor_types::normalize_package_name(requirement_name(
            &package_for_module(settings, module),
        )))
    };
    let more = settings.runs.plugin_arguments.iter().filter(|(module, _)| has(module));
    let more = more.flat_map(|(_, arguments)| arguments).map(String::as_str);
    [PYTHON, "-m", "pytest", "-q"].into_iter().chain(more).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_for_module_maps_modules_to_packages() {
        let settings = Settings::get().unwrap();
        assert_eq!(package_for_module(settings, "yaml.nodes"), "PyYAML");
        assert_eq!(package_for_module(settings, "hypothesis.strategies"), "hypothesis");
        let project = Project { modules: vec!["src/pkg/a.py".into()], ..Project::default() };
        let tree = tempfile::tempdir().unwrap();
        std::fs::write(tree.path().join("helpers.py"), "").unwrap();
        assert!(is_project_module(&project, tree.path(), "pkg.b"));
        assert!(is_project_module(&project, tree.path(), "helpers"));
        assert!(!is_project_module(&project, tree.path(), "trio"));
    }

    #[test]
    fn missing_plugins_finds_packages_by_option() {
        let settings = Settings::get().unwrap();
        let record = |text: &str| serde_json::from_str::<Record>(text).unwrap();
        let error = record(
            r#"{"t": "error", "id": "", "why": "", "missing": null, "packages": ["pytest-x>1"],
                "options": ["--cov-report", "-n", "asyncio_mode", "--covered", "--no-such"]}"#,
        );
        let wanted = ["pytest-x>1", "pytest-cov", "pytest-xdist", "pytest-asyncio"];
        assert_eq!(missing_plugins(settings, &error), wanted);
        assert!(missing_plugins(settings, &record(r#"{"t": "start", "id": ""}"#)).is_empty());
        let pins = |list: &[&str]| list.iter().map(|&pin| pin.to_owned()).collect::<Vec<_>>();
        let command = test_command(settings, &pins(&["pytest==8.4.2", "pytest_cov==7.0.0"]));
        assert_eq!(command, [PYTHON, "-m", "pytest", "-q", "--no-cov"]);
        let command = test_command(settings, &pins(&["pytest==8.4.2", "pytest-xdist==3.8.0"]));
        assert_eq!(command, [PYTHON, "-m", "pytest", "-q", "-n0"]);
    }
}
