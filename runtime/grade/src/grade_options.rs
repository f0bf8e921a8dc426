//! Options for grading a patch.

use std::{collections::BTreeSet, time::Duration};

use proctor_setup::HiddenCopies;

use crate::{Defenses, ExpectedEvidence, FrozenIds, ProbeCache};

/// Options for grading a patch.
#[derive(Debug, Clone, Default)]
pub struct GradeOptions {
    /// Time limit of the test run. The lower of this and the task's own limit applies.
    pub time_limit: Option<Duration>,
    pub defenses: Defenses,
    /// Tests that run and are reported but do not count under the strict policy.
    pub quarantine: BTreeSet<String>,
    /// The frozen tests of the files that the task expects. If `None`, the graded run defines which
    /// tests these files contain.
    pub frozen_ids: Option<FrozenIds>,
    /// The content that was hidden when the sandbox was prepared, and the content to hide in the
    /// work directory.
    pub hidden_copies: HiddenCopies,
    /// Evidence that grading the gold patch also produces, by kind and text. Such evidence does not
    /// count against other patches.
    pub expected_evidence: ExpectedEvidence,
    /// Identifies the sandbox's content and preparation. The interpreter's probe is cached under
    /// this key. If `None`, each grading probes again.
    pub preparation_key: Option<String>,
    pub probe_cache: ProbeCache,
}
