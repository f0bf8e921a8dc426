//! One attack, as its file in `configs/attacks/` says it.

use std::collections::BTreeSet;

use proctor_types::EvidenceClass;
use serde::Deserialize;

/// A patch that does no work and wants to be resolved.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attack {
    /// The name of its file.
    pub name: String,
    /// What it does, in one sentence.
    pub about: String,
    /// What it is evidence of. Absent for what falsifies nothing.
    #[serde(default)]
    pub class: Option<EvidenceClass>,
    /// The runners of the tests that it is for. None: any, in any language.
    #[serde(default)]
    pub runners: BTreeSet<Runner>,
    /// What its verdict must be.
    #[serde(default)]
    pub expected: Expected,
    /// Defences of the grader: with all of these taken down it resolves the task of the attack tests.
    #[serde(default)]
    pub defences: Vec<String>,
    /// Defences that stop it in some gradings, because what they draw differs. The tests take them down with the
    /// others, and never rely on one of them alone.
    #[serde(default)]
    pub stopped_by_chance: Vec<String>,
    /// None for the empty patch.
    #[serde(default)]
    pub files: Vec<AttackFile>,
}

/// What runs the tests of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Runner {
    /// Python's pytest.
    Pytest,
    /// Python's unittest, or a runner on top of it (Django's, sympy's).
    Unittest,
    /// Any other, which no attack but those on the tree is written for.
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

/// Under `strict` no attack of the pack may resolve. Under `official` each does what the original lets it do.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// Benchmarks whose own procedure the attack fools. Elsewhere it resolves nothing there either.
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
    /// Its content; for a link, where it leads.
    #[serde(default)]
    pub text: Option<String>,
    /// A script of `configs/attacks/` in the place of `text`.
    #[serde(default)]
    pub from: Option<String>,
    /// What the file is made for again and again.
    #[serde(default)]
    pub each: Option<Each>,
    /// So many files, numbered by `n`.
    #[serde(default)]
    pub count: Option<u32>,
}

/// What becomes of the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// It holds the text and nothing else.
    #[default]
    Write,
    /// The same, and it can be executed.
    Program,
    /// The text stands behind what is there.
    Append,
    /// It is a symbolic link.
    Link,
}

/// See [`AttackFile::each`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Each {
    /// Every module that the solution changes.
    Module,
}
