//! Renders the statement of a level-2 task.

use std::{collections::BTreeSet, fs, path::Path};

use proctor_types::Fault;
use serde::Serialize;

use super::{
    module_names::{TopLevelName, module_name},
    referenced_code::referenced_code,
    rewrite::AGENT_PACKAGE,
};
use crate::{
    carve::{StubOptions, stub_and_code},
    collect::{
        environment::WORKDIR,
        project::Project,
        statement::{Statements, format_requirements, quoted_fraction, render},
    },
};

const PROCTOR_TEMPLATE: &str = include_str!("../../../../../prompts/collection/level-2.md.j2");
const FEATUREBENCH_TEMPLATE: &str =
    include_str!("../../../../../prompts/featurebench/level-2.md.j2");

#[derive(Serialize)]
struct StatementVariables<'a> {
    title: String,
    overview: Option<&'a str>,
    /// Further requirements of the tests, one sentence each.
    required: &'a [String],
    package: &'a str,
    version: &'a str,
    summary: &'a str,
    agent_code: &'a str,
    workdir: &'a str,
    black_links: String,
    interfaces: &'a [String],
    /// Library code that the interfaces refer to.
    named: &'a str,
}

/// The requested objects.
#[derive(Clone)]
pub(super) struct Interface<'a> {
    /// Each object with its stub.
    pub(super) stubs_by_name: Vec<(&'a TopLevelName, String)>,
    /// The concatenated code of all objects.
    pub(super) hidden_code: String,
    /// Names of attributes that the tests access on any object.
    used_attributes: BTreeSet<String>,
    /// The module and name of each object that the tests still import from the library.
    pub(super) library_imports: BTreeSet<(String, String)>,
}

impl<'a> Interface<'a> {
    /// Reads the requested objects. `notes` returns the notes on the function at a dotted path in a
    /// file.
    pub(super) fn from_source(
        tree: &Path,
        project: &Project,
        requested: &'a BTreeSet<TopLevelName>,
        notes: &dyn Fn(&str, &str) -> Vec<String>,
        used_attributes: BTreeSet<String>,
    ) -> Self {
        let (mut stubs_by_name, mut hidden_code) = (Vec::new(), String::new());
        for owner in requested {
            let is_it = |file: &&String| module_name(file, &project.root) == owner.module;
            let Some(file) = project.modules.iter().find(is_it) else { continue };
            let text = fs::read_to_string(tree.join(file)).unwrap_or_default();
            let of_file = |path: &str| notes(file, path);
            let view = StubOptions { notes: &of_file, used_names: Some(&used_attributes) };
            if let Some((stub, code)) = stub_and_code(&text, &owner.name, view) {
                stubs_by_name.push((owner, stub));
                hidden_code.push_str(&code);
            }
        }
        Self { stubs_by_name, hidden_code, used_attributes, library_imports: BTreeSet::new() }
    }

    pub(super) fn stubs(&self) -> String {
        self.stubs_by_name.iter().map(|(_, stub)| stub.as_str()).collect()
    }
}

/// Renders the statement in Proctor's format and in FeatureBench's.
///
/// # Errors
/// Fails if a template cannot be rendered.
pub(super) fn render_statements(
    tree: &Path,
    (project, overview, requirements): (&Project, Option<&str>, &[String]),
    requested: &BTreeSet<TopLevelName>,
    Interface {
        stubs_by_name,
        hidden_code: hidden,
        used_attributes: used,
        library_imports: imported_names,
    }: Interface<'_>,
) -> Result<Statements, Fault> {
    let code =
        referenced_code((tree, project), requested, &stubs_by_name, (&used, &imported_names));
    let interfaces: Vec<String> = stubs_by_name.into_iter().map(|(_, stub)| stub).collect();
    let names: Vec<&str> = requested.iter().map(|owner| owner.name.as_str()).collect();
    let shown = names.iter().take(3).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let more = match names.len().saturating_sub(3) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let mut filling = StatementVariables {
        title: format!("Write {shown}{more} of {} from scratch", project.name),
        overview,
        required: requirements,
        package: &project.name,
        version: &project.version,
        summary: project.summary.trim(),
        agent_code: AGENT_PACKAGE,
        workdir: WORKDIR,
        black_links: project.urls.join("\n"),
        interfaces: &interfaces,
        named: &code,
    };
    let own = render(PROCTOR_TEMPLATE, &filling)?;
    // FeatureBench's template has no variable for `code`, so insert it before the first interface.
    let mut with_named = interfaces.clone();
    if let Some(first) = with_named.first_mut().filter(|_| !code.is_empty()) {
        *first = format!(
            "# The library has these, and keeps them:\n{code}\n# What is asked for:\n{first}"
        );
    }
    filling.interfaces = &with_named;
    // The template has no variable for requirements either, so append them to the overview.
    let overview = format!("{}{}", overview.unwrap_or_default(), format_requirements(requirements))
        .trim()
        .to_owned();
    filling.overview = (!overview.is_empty()).then_some(&*overview);
    let featurebench = render(FEATUREBENCH_TEMPLATE, &filling)?;
    let leak_score = quoted_fraction(&hidden, &with_named.concat(), &[&own, &featurebench]);
    Ok(Statements { proctor: own, featurebench, leak_score })
}
