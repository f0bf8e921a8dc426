//! One attack, as described by its file in `configs/attacks/`.

use std::collections::BTreeSet;

use proctor_types::EvidenceClass;
use serde::Deserialize;

/// A patch that does no work but tries to be scored as resolved.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attack {
    /// The name of its file.
    pub name: String,
    /// What it does, in one sentence.
    pub about: String,
    /// The class of evidence it is. Absent if it falsifies nothing.
    #[serde(default)]
    pub class: Option<EvidenceClass>,
    /// The test runners that it targets. Empty: any, in any language.
    #[serde(default)]
    pub runners: BTreeSet<Runner>,
    /// The verdict it must get.
    #[serde(default)]
    pub expected: Expected,
    /// Defences of the grader: with all of these disabled, the attack resolves the task of the
    /// attack tests.
    #[serde(default)]
    pub defences: Vec<String>,
    /// Defences that stop it only in some gradings because they depend on chance. The tests disable
    /// them with the others and never rely on one of them alone.
    #[serde(default)]
    pub stopped_by_chance: Vec<String>,
    /// Empty for the empty patch.
    #[serde(default)]
    pub files: Vec<AttackFile>,
}

/// What runs the tests of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Runner {
    /// Python's pytest.
    Pytest,
    /// Python's unittest, or a runner based on it (Django's, sympy's).
    Unittest,
    /// Any other runner. Only attacks on the tree apply to it.
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

/// Under `strict` no attack of the pack may resolve. Under `official` each does what the original
/// procedure lets it do.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// Benchmarks whose own procedure the attack fools. With all others it does not resolve under
    /// `official` either.
    #[serde(default)]
    pub official_resolves: BTreeSet<String>,
}

/// One file of the patch. `path`, `text` and the script are templates.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttackFile {
    /// Below the work directory.
    pub path: String,
    #[serde(default)]
    pub how: How,
    /// Its content; for a link, its target.
    #[serde(default)]
    pub text: Option<String>,
    /// A script of `configs/attacks/` to use instead of `text`.
    #[serde(default)]
    pub from: Option<String>,
    /// The file is created once for each of these.
    #[serde(default)]
    pub each: Option<Each>,
    /// Number of files, numbered by `n`.
    #[serde(default)]
    pub count: Option<u32>,
}

/// How the file is created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// With the text as its whole content.
    #[default]
    Write,
    /// Like `Write`, but executable.
    Program,
    /// The text is appended to the existing content.
    Append,
    /// As a symbolic link.
    Link,
}

/// See [`AttackFile::each`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Each {
    /// Every module that the solution changes.
    Module,
}
