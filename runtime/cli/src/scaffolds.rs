//! Scaffolds by name: those of the runtime's own process, and command-line agents.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, LazyLock},
};

use proctor_external::External;
use proctor_scaffold_api::Scaffold;
use proctor_types::Arm;
use serde_json::Value;

use crate::error::UserError;

static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let mut names = proctor_scaffolds::names().to_vec();
    names.extend_from_slice(proctor_external::names());
    names.sort_unstable();
    names
});

/// The names that configurations use, sorted.
pub fn names() -> &'static [&'static str] {
    &NAMES
}

/// The scaffold of a name, or of a manifest's file.
pub fn named(name: &str) -> Result<Option<Arc<dyn Scaffold>>, String> {
    let builtin = proctor_scaffolds::builtin(name).map_err(|error| error.to_string())?;
    if builtin.is_some() {
        return Ok(builtin);
    }
    let loaded = match name.ends_with(".toml") {
        true => Some(proctor_external::load(Path::new(name))),
        false => proctor_external::shipped(name).transpose(),
    };
    let Some(loaded) = loaded.transpose().map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    if proctor_scaffolds::names().contains(&loaded.manifest.name.as_str()) {
        let taken = &loaded.manifest.name;
        return Err(format!("{name}: `name`: Proctor has a scaffold `{taken}`: choose another"));
    }
    Ok(Some(Arc::new(External::new(loaded, Value::Null))))
}

/// The scaffolds of planned arms, by their names. A command-line agent is the one that the arm was planned
/// with, whatever became of its manifest's file.
pub fn of_arms<'a>(
    arms: impl Iterator<Item = &'a Arm>,
) -> Result<BTreeMap<String, Arc<dyn Scaffold>>, UserError> {
    let mut found: BTreeMap<String, Arc<dyn Scaffold>> = BTreeMap::new();
    for arm in arms {
        let problem = |why: String| UserError::new(format!("arm {}: {why}", arm.name));
        let recorded =
            External::recorded(&arm.prompts).map_err(|error| problem(error.to_string()))?;
        let scaffold = match recorded {
            Some(external) => Some(Arc::new(external) as Arc<dyn Scaffold>),
            None => named(&arm.scaffold).map_err(problem)?,
        };
        if let Some(scaffold) = scaffold {
            found.insert(arm.scaffold.clone(), scaffold);
        }
    }
    Ok(found)
}
