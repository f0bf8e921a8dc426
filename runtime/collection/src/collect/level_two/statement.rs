//! What an agent is told that starts from nothing.

use std::{collections::BTreeSet, fs, path::Path};

use proctor_types::Fault;
use serde::Serialize;

use super::{
    gold::module_of,
    rewrite::{Owner, PACKAGE},
};
use crate::{
    carve::interface_of,
    collect::{
        environment::WORKDIR,
        project::Project,
        statement::{Statements, filled, told},
    },
};

const OWN: &str = include_str!("../../../../../prompts/collection/level-2.md.j2");
const FEATUREBENCH: &str = include_str!("../../../../../prompts/featurebench/level-2.md.j2");

#[derive(Serialize)]
struct Told<'a> {
    title: String,
    package: &'a str,
    version: &'a str,
    summary: &'a str,
    agent_code: &'a str,
    workdir: &'a str,
    black_links: String,
    interfaces: &'a [String],
}

/// # Errors
/// A template that cannot be filled in.
pub(super) fn write(
    tree: &Path,
    project: &Project,
    asked: &BTreeSet<Owner>,
) -> Result<Statements, Fault> {
    let (mut interfaces, mut hidden) = (Vec::new(), String::new());
    for owner in asked {
        let is_it = |file: &&String| module_of(file, &project.root) == owner.module;
        let Some(file) = project.modules.iter().find(is_it) else { continue };
        let text = fs::read_to_string(tree.join(file)).unwrap_or_default();
        if let Some((stub, code)) = interface_of(file, &text, &owner.name) {
            interfaces.push(stub);
            hidden.push_str(&code);
        }
    }
    let names: Vec<&str> = asked.iter().map(|owner| owner.name.as_str()).collect();
    let shown = names.iter().take(3).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let more = match names.len().saturating_sub(3) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let filling = Told {
        title: format!("Write {shown}{more} of {} from scratch", project.name),
        package: &project.name,
        version: &project.version,
        summary: project.summary.trim(),
        agent_code: PACKAGE,
        workdir: WORKDIR,
        black_links: project.urls.join("\n"),
        interfaces: &interfaces,
    };
    let own = filled(OWN, &filling)?;
    let featurebench = filled(FEATUREBENCH, &filling)?;
    let leak_score = told(&hidden, &interfaces.concat(), &[&own, &featurebench]);
    Ok(Statements { own, featurebench, leak_score })
}
