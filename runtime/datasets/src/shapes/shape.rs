//! Defines shapes. A shape is data that describes the names and meanings of a benchmark's fields.

use std::{collections::BTreeMap, path::Path, sync::LazyLock};

use proctor_types::from_toml;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::DatasetError;

/// The content of a file in `configs/benchmarks/`, or of a user's file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shape {
    pub name: String,
    /// The version of the benchmark's harness whose rules are used.
    pub version: Option<String>,
    #[serde(default)]
    pub module: ShapeModule,
    #[serde(default)]
    pub polarity: PatchPolarity,
    #[serde(default, rename = "match")]
    pub matching: TestMatching,
    /// What to hide from the agent, besides the paths that the row itself hides.
    #[serde(default)]
    pub hide: HiddenTests,
    /// A template, because some benchmarks name the directory after the repository.
    #[serde(default = "testbed")]
    pub workdir: String,
    /// Fields that are objects, or objects as JSON text. Their members are accessed with a dot.
    #[serde(default)]
    pub expand: Vec<String>,
    /// Fields that a row must have in addition to those that every task needs, under Proctor's
    /// names.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Large fields that are dropped without being listed in `row_left_out`.
    #[serde(default)]
    pub drop: Vec<String>,
    #[serde(default)]
    pub detect: DetectionRules,
    #[serde(default)]
    pub hub: HubRules,
    #[serde(default)]
    pub fields: FieldAliases,
    #[serde(default)]
    pub details: FieldAliases,
    #[serde(default)]
    pub image: ImageRules,
    #[serde(default)]
    pub tests: TestRules,
}

pub(crate) type FieldAliases = BTreeMap<String, Vec<String>>;

fn testbed() -> String {
    "/testbed".into()
}

/// The code that a shape needs in addition to its data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ShapeModule {
    #[default]
    None,
    #[serde(rename = "featurebench")]
    FeatureBench,
    FeaBench,
    /// The row has commands and parsers, as lists or as code.
    Commands,
}

/// The direction of a row's patch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PatchPolarity {
    #[default]
    Solution,
    Corruption,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TestMatching {
    #[default]
    Ids,
    Files,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HiddenTests {
    #[default]
    Nothing,
    FailToPass,
}

/// How a row is recognized. The row has all fields in `all`, at least one in `any` (unless `any` is
/// empty), and none in `none`.
///
/// `marks` are fields that only this benchmark's rows have. A row with marks of two shapes is
/// rejected.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DetectionRules {
    pub all: Vec<String>,
    pub any: Vec<String>,
    pub none: Vec<String>,
    pub marks: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HubRules {
    pub names: Vec<String>,
    pub split: Option<String>,
    pub revision: Option<String>,
    /// The value of `benchmark.split` by hub dataset, for datasets whose own split name is not
    /// meaningful.
    pub sets: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ImageRules {
    /// Template for rows without an image name; empty if every row must have one.
    pub name: String,
    /// Replaces `__` in an id, because image names must not contain it.
    pub separator: Option<String>,
    /// Shell commands that run in the benchmark's images and remove files that must not be in a
    /// sandbox.
    pub prepare: Vec<String>,
    /// Additional commands like those in `prepare`, by repository.
    pub prepare_by_repo: BTreeMap<String, Vec<String>>,
    /// Setup commands for `base=host`, which uses no image.
    pub setup: Vec<String>,
    pub setup_bin: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TestRules {
    /// The directory of `python` and `pytest` in the image.
    pub bin: String,
    /// The default test command. The test files are appended to it.
    pub command: String,
    /// The default log parser: a parser name of the official policy.
    pub parser: String,
    /// The benchmark's time limit for one instance.
    pub seconds: f64,
    pub directives: Directives,
    pub by_repo: Vec<RepoTestSettings>,
}

/// How to test one repository. The first match applies.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RepoTestSettings {
    pub repos: Vec<String>,
    /// The versions that these settings apply to. Empty for all versions.
    pub versions: Vec<String>,
    pub command: Option<String>,
    pub parser: Option<String>,
    pub directives: Option<Directives>,
    /// Whether `command` takes precedence over the row's command.
    pub over_row: bool,
    /// Whether the row must have a test command.
    #[serde(default)]
    pub needs_command: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Directives {
    #[default]
    Files,
    /// Dotted modules below `tests/`, for Django's runner.
    Modules,
    /// No directives: the whole suite runs.
    Whole,
    /// The files of the expected tests: first the fail-to-pass files, then the pass-to-pass files,
    /// each sorted.
    Expected,
}

impl Shape {
    /// Returns a row's id, and the field that contains it.
    pub(crate) fn find_id(&self, row: &Map<String, Value>) -> Option<(&str, String)> {
        let names = self.fields.get("id")?;
        names.iter().find_map(|name| Some((name.as_str(), row.get(name)?.as_str()?.to_owned())))
    }
}

impl TestRules {
    pub(crate) fn for_repo(&self, repo: &str, version: &str) -> Option<&RepoTestSettings> {
        self.by_repo.iter().find(|by| {
            by.repos.iter().any(|name| name == repo)
                && (by.versions.is_empty() || by.versions.iter().any(|known| known == version))
        })
    }
}

#[derive(Deserialize)]
struct CommonAliases {
    fields: FieldAliases,
    details: FieldAliases,
}

const COMMON_ALIASES: &str = include_str!("../../../../configs/benchmarks/aliases.toml");

/// The built-in shapes. A new one needs a file and a line here; a user's shape needs only a file.
const SHIPPED_FILES: &[(&str, &str)] = &[
    ("featurebench", include_str!("../../../../configs/benchmarks/featurebench.toml")),
    ("fea-bench", include_str!("../../../../configs/benchmarks/fea-bench.toml")),
    ("swe-bench", include_str!("../../../../configs/benchmarks/swe-bench.toml")),
    ("swe-bench-live", include_str!("../../../../configs/benchmarks/swe-bench-live.toml")),
    ("swe-gym", include_str!("../../../../configs/benchmarks/swe-gym.toml")),
    ("swe-rebench", include_str!("../../../../configs/benchmarks/swe-rebench.toml")),
    ("swe-smith", include_str!("../../../../configs/benchmarks/swe-smith.toml")),
];

static SHAPES: LazyLock<Result<Vec<Shape>, String>> = LazyLock::new(|| {
    SHIPPED_FILES
        .iter()
        .map(|(name, text)| parse_shape(text).map_err(|why| format!("{name}: {why}")))
        .collect()
});

/// Parses a shape. Its own aliases override the common ones.
fn parse_shape(text: &str) -> Result<Shape, String> {
    let common: CommonAliases =
        from_toml(COMMON_ALIASES).map_err(|error| format!("aliases: {error}"))?;
    let mut shape: Shape = from_toml(text)?;
    if let Some(name) = shape.fields.keys().find(|name| !common.fields.contains_key(*name)) {
        let known: Vec<_> = common.fields.keys().map(String::as_str).collect();
        return Err(format!("fields.{name}: no such field; fields: {}", known.join(", ")));
    }
    for (name, aliases) in common.fields {
        shape.fields.entry(name).or_insert(aliases);
    }
    for (name, aliases) in common.details {
        shape.details.entry(name).or_insert(aliases);
    }
    Ok(shape)
}

/// Returns all built-in shapes.
pub(crate) fn shipped_shapes() -> Result<&'static [Shape], DatasetError> {
    SHAPES
        .as_deref()
        .map_err(|why| DatasetError::BadShape { shape: "shipped".into(), why: why.clone() })
}

/// Returns a built-in shape by name, or a user's shape by file.
pub(crate) fn load_shape(name: &str, base_dir: &Path) -> Result<Shape, DatasetError> {
    let bad = |why: String| DatasetError::BadShape { shape: name.to_owned(), why };
    if name.ends_with(".toml") {
        let file = base_dir.join(name);
        let text = std::fs::read_to_string(&file)
            .map_err(|error| bad(format!("{}: {error}", file.display())))?;
        return parse_shape(&text).map_err(bad);
    }
    let shapes = shipped_shapes()?;
    shapes.iter().find(|shape| shape.name == name).cloned().ok_or_else(|| {
        let known: Vec<_> = shapes.iter().map(|shape| shape.name.as_str()).collect();
        bad(format!("is not one of {}", known.join(", ")))
    })
}

/// Returns the shape for a hub name.
pub(crate) fn shape_for_hub(name: &str) -> Result<Option<&'static Shape>, DatasetError> {
    let same = |known: &String| known.eq_ignore_ascii_case(name);
    Ok(shipped_shapes()?.iter().find(|shape| shape.hub.names.iter().any(same)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_shapes_load_and_match_their_file_names() {
        let shapes = shipped_shapes().unwrap();
        for (shape, (name, _)) in shapes.iter().zip(SHIPPED_FILES) {
            assert_eq!(shape.name, *name);
            assert!(!shape.detect.all.is_empty(), "{name} detects no rows");
            assert!(shape.tests.seconds > 0.0, "{name} has no limit");
        }
    }
}
