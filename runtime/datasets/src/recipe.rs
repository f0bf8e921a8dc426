//! The recipe file: what to download from PyPI, and which code to remove.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{errors::RowError, rules};

/// A recipe and its file.
#[derive(Debug, Clone, PartialEq)]
pub struct RecipeFile {
    pub file: PathBuf,
    pub recipe: Recipe,
}

/// A recipe, which contains names, hashes and lists of code to remove, but not the library's code.
/// `docs/reference/recipes.md` documents every key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    pub schema_version: u32,
    /// The id of the resulting task.
    pub id: String,
    /// The title of the statement.
    pub title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    pub package: String,
    pub version: String,
    /// SHA-256 of the sdist, lower-case hex.
    pub sha256: String,
    /// The lowest supported Python 3, in PyPI's format: `>=3.9`.
    pub requires_python: String,
    /// Pinned test dependencies: `pytest==8.4.2`.
    pub dependencies: Vec<String>,
    /// Directories below the source that are added to `PYTHONPATH`. The package itself is never
    /// installed, because an installed copy would contain the removed code.
    #[serde(default = "source_root")]
    pub python_path: Vec<String>,
    /// Dotted paths of functions, classes and methods to remove, by file.
    pub carve: BTreeMap<String, Vec<String>>,
    /// Test files to consider, as globs below the source.
    pub tests: Vec<String>,
    /// Test ids that are never used. A comment next to each gives the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leave_out: Vec<String>,
    /// Other paths to hide, such as documentation that contains the removed code, or further tests
    /// of that code.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked_urls: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grade_seconds: Option<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
}

fn source_root() -> Vec<String> {
    vec![".".into()]
}

/// The only version of the recipe format so far.
const RECIPE_SCHEMA_VERSION: u32 = 1;

pub(crate) fn check_recipe(recipe: &Recipe) -> Vec<RowError> {
    let mut out = Vec::new();
    if recipe.schema_version != RECIPE_SCHEMA_VERSION {
        let what = format!(
            "is {}, but this version of Proctor reads {RECIPE_SCHEMA_VERSION}",
            recipe.schema_version
        );
        out.push(RowError::invalid_field("recipe.schema_version", what));
    }
    if recipe.id.is_empty() {
        out.push(RowError::invalid_field("recipe.id", "is empty"));
    }
    if recipe.sha256.len() != 64 || !recipe.sha256.bytes().all(|b| b.is_ascii_hexdigit()) {
        out.push(RowError::invalid_field("recipe.sha256", "is not 64 hex digits"));
    }
    if recipe.carve.values().all(Vec::is_empty) {
        out.push(RowError::invalid_field("recipe.carve", "does not list anything to remove"));
    }
    for (file, names) in &recipe.carve {
        if let Err(what) = rules::check_relative_path(file) {
            out.push(RowError::invalid_field(format!("recipe.carve.{file:?}"), what));
        }
        if Path::new(file).extension().is_none_or(|extension| extension != "py") {
            out.push(RowError::invalid_field(
                format!("recipe.carve.{file:?}"),
                "is not a Python file",
            ));
        }
        if let Some(name) = names.iter().find(|name| !is_dotted_name(name)) {
            let what = format!("{name:?} is not a dotted path such as `Class.method`");
            out.push(RowError::invalid_field(format!("recipe.carve.{file:?}"), what));
        }
    }
    if recipe.tests.is_empty() {
        out.push(RowError::invalid_field("recipe.tests", "is empty, so no tests can be recorded"));
    }
    for dependency in &recipe.dependencies {
        if !dependency.contains("==") {
            let what = format!("{dependency:?} is not pinned; use `name==version`");
            out.push(RowError::invalid_field("recipe.dependencies", what));
        }
    }
    for (field, paths) in
        [("recipe.tests", &recipe.tests), ("recipe.python_path", &recipe.python_path)]
    {
        if let Some((path, what)) =
            paths.iter().find_map(|path| Some((path, rules::check_relative_path(path).err()?)))
        {
            out.push(RowError::invalid_field(field, format!("{path:?} {what}")));
        }
    }
    out
}

fn is_dotted_name(name: &str) -> bool {
    name.split('.').all(|part| {
        !part.is_empty()
            && !part.starts_with(|c: char| c.is_ascii_digit())
            && part.chars().all(|c| c.is_alphanumeric() || c == '_')
    })
}
