//! An attack as described by its file in `configs/attacks/`.

use std::collections::BTreeSet;

use proctor_types::EvidenceClass;
use serde::Deserialize;

/// A patch that does no work but tries to get the task graded as resolved.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attack {
    /// The name of the attack's file.
    pub name: String,
    /// A one-sentence description.
    pub about: String,
    /// The class of evidence that the attack produces. Absent if the attack falsifies nothing.
    #[serde(default)]
    pub class: Option<EvidenceClass>,
    /// The test runners that the attack targets. Empty: any runner, in any language.
    #[serde(default)]
    pub runners: BTreeSet<Runner>,
    /// The expected verdict.
    #[serde(default)]
    pub expected: ExpectedVerdict,
    /// The grader's defenses against this attack. With all of them disabled, the attack resolves
    /// the task used in the attack tests.
    #[serde(default, rename = "defences")]
    pub defenses: Vec<String>,
    /// Defenses that stop the attack only sometimes, because they depend on chance. The tests
    /// disable them with the others and never rely on one of them alone.
    #[serde(default)]
    pub stopped_by_chance: Vec<String>,
    /// The patch's files. Empty for the empty patch.
    #[serde(default)]
    pub files: Vec<AttackFile>,
}

/// The test runner of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Runner {
    /// Python's pytest.
    Pytest,
    /// Python's unittest, or a runner based on it (Django's, sympy's).
    Unittest,
    /// Any other runner. Only attacks on the file tree apply to it.
    Other,
}

impl std::fmt::Display for Runner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Pytest => "pytest",
            Self::Unittest => "unittest",
            Self::Other => "another runner",
        })
    }
}

/// The expected verdict. No attack in the pack may resolve the task under `strict`. Under
/// `official`, the result depends on the benchmark's own procedure.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedVerdict {
    /// Benchmarks whose own procedure the attack fools. For all others, the attack does not resolve
    /// the task under `official` either.
    #[serde(default)]
    pub official_resolves: BTreeSet<String>,
}

/// One file of the patch. `path`, `text` and the script in `from` are templates.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttackFile {
    /// Path relative to the work directory.
    pub path: String,
    #[serde(default)]
    pub how: WriteMode,
    /// The content. For a link, its target.
    #[serde(default)]
    pub text: Option<String>,
    /// A script in `configs/attacks/` to use instead of `text`.
    #[serde(default)]
    pub from: Option<String>,
    /// The items for which to create one file each.
    #[serde(default)]
    pub each: Option<ForEach>,
    /// Number of files to create. The template variable `n` numbers them.
    #[serde(default)]
    pub count: Option<u32>,
}

/// How the file is created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteMode {
    /// Write the text as the whole content.
    #[default]
    Write,
    /// Like `Write`, but make the file executable.
    Program,
    /// Append the text to the existing content.
    Append,
    /// Create a symbolic link.
    Link,
}

/// The items for which [`AttackFile::each`] creates one file each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForEach {
    /// Every module that the solution changes.
    Module,
}
