//! What a piece of evidence, or an attack, is about: the closed set that audits of benchmarks count by.

use serde::{Deserialize, Serialize};

/// One kind of cheating.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceClass {
    /// The solution was found in the sandbox: history, image, cache, mount.
    AnswerInEnvironment,
    /// The solution was fetched over the network.
    AnswerUpstream,
    /// Whoever wrote the scaffold put the solution into it.
    AnswerInScaffold,
    /// Tests, parser, results or a plugin were overwritten.
    GraderOverwrite,
    /// The running grader was changed, or lied to: a patched runner, an object that equals everything.
    GraderInProcess,
    /// A program that the grader calls was replaced.
    ToolReplaced,
    /// A process outlived its time.
    LateWriter,
    /// Markers or results were printed.
    OutputForged,
    /// The answer holds for the tests' own values only.
    SpecialCased,
    /// Time or resources were changed.
    LimitChanged,
    /// Text was aimed at a model that judges.
    JudgeInjected,
}
