//! Defines attacks as data. Tests in other modules run them on the bench, and `table.rs` runs them
//! on every back end.

use proctor_grade::{Defenses, GradeOptions};
use proctor_types::Integrity;

use crate::bench::{
    BenchTask, F2P, GradedPatch, P2P, defenses_without_screening, diff, grade_on_task,
    package_with_cheat, patch,
};

/// An attack: a patch that does not solve the task.
#[derive(Clone)]
pub struct Attack {
    pub name: &'static str,
    pub source_files: Vec<(&'static str, String)>,
    pub env: Vec<(&'static str, &'static str)>,
    pub fail_to_pass: Vec<&'static str>,
    pub patch: String,
    /// Expected kinds of evidence: at least one must be found. Empty if the attack just fails.
    pub expected_kinds: &'static [&'static str],
    /// Why the attack is not detected. `docs/design/grading-security.md` lists such attacks.
    pub undetected_reason: Option<&'static str>,
}

impl Attack {
    /// Creates an attack with `cheat` at the start of the masked module.
    pub fn with_cheat(
        name: &'static str,
        cheat: &str,
        expected_kinds: &'static [&'static str],
    ) -> Self {
        Self::new(
            name,
            patch(&[("roman/__init__.py", Some(&package_with_cheat(cheat)))]),
            expected_kinds,
        )
    }

    pub fn new(name: &'static str, patch: String, expected_kinds: &'static [&'static str]) -> Self {
        Self {
            name,
            source_files: Vec::new(),
            env: Vec::new(),
            fail_to_pass: Vec::new(),
            patch,
            expected_kinds,
            undetected_reason: None,
        }
    }

    /// Adds a file to the source.
    pub fn with_source_file(mut self, file: &'static str, text: &str) -> Self {
        self.source_files.push((file, text.to_owned()));
        self
    }

    /// Adds a fail-to-pass test. The first call replaces the bench's own fail-to-pass tests.
    pub fn with_fail_to_pass(mut self, id: &'static str) -> Self {
        self.fail_to_pass.push(id);
        self
    }

    pub fn with_env(mut self, name: &'static str, value: &'static str) -> Self {
        self.env.push((name, value));
        self
    }

    /// Adds a new file to the patch.
    pub fn with_added_file(mut self, file: &str, text: &str) -> Self {
        self.patch.push_str(&diff(file, None, Some(text)));
        self
    }

    /// Changes an added source file in the patch.
    pub fn with_edited_file(mut self, file: &str, text: &str) -> Self {
        let old =
            self.source_files.iter().find(|(name, _)| *name == file).map(|(_, text)| text.as_str());
        self.patch.push_str(&diff(file, old, Some(text)));
        self
    }

    pub fn grade(&self, defenses: Defenses) -> GradedPatch {
        let given: Vec<(&str, &str)> =
            self.source_files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let ground =
            BenchTask { source_files: &given, env: &self.env, fail_to_pass: &self.fail_to_pass };
        grade_on_task(&ground, &self.patch, &GradeOptions { defenses, ..GradeOptions::default() })
    }

    /// Asserts that the attack is stopped and detected with all defenses, and that its verdict is
    /// resolved and clean without the named defenses.
    pub fn assert_stopped_by(&self, names: &[&str]) {
        let wrong = self.find_problem(names);
        assert!(wrong.is_none(), "{}", wrong.unwrap());
    }

    /// Returns what is wrong, if anything. Screening is always disabled, and canaries are disabled
    /// together with the named defenses, because both have their own tests.
    pub fn find_problem(&self, names: &[&str]) -> Option<String> {
        let seen = self.grade(defenses_without_screening());
        if !self.is_stopped(&seen) {
            return Some(format!("{}: {}", self.name, seen.details()));
        }
        let off = defenses_without_screening().without("canaries");
        let open = names.iter().fold(off, |all, name| all.without(name));
        let open = (!names.is_empty()).then(|| self.grade(open))?;
        (!open.is_resolved() || open.is_suspect())
            .then(|| format!("{}, open: {}", self.name, open.details()))
    }

    pub fn is_stopped(&self, graded_patch: &GradedPatch) -> bool {
        let clean = graded_patch.0.verdict.integrity == Integrity::Clean;
        let is_seen = self.expected_kinds.is_empty()
            || self.expected_kinds.iter().any(|kind| graded_patch.has_evidence(kind));
        is_seen && !(graded_patch.is_resolved() && clean)
    }
}

/// Returns Python code that defines the bench's expected ids as `IDS`, for use in attacks. The ids
/// do not include canaries.
pub fn known_ids_code() -> String {
    let ids: Vec<&str> = F2P.into_iter().chain(P2P).collect();
    format!("IDS = {ids:?}\n")
}

/// Python code that finds pytest's session or configuration from inside a call.
pub const FIND_FUNCTION: &str = r#"
import sys

def find(kind):
    frame = sys._getframe()
    while frame is not None:
        for value in list(frame.f_locals.values()):
            if type(value).__name__ == kind:
                return value
        frame = frame.f_back
"#;

pub fn all_attacks() -> Vec<Attack> {
    let mut all = crate::roots::attacks();
    all.extend(crate::content::attacks());
    all.extend(crate::sight::attacks());
    all.extend(crate::attempts::attacks());
    all.extend(crate::reading::attacks());
    all.extend(crate::recorder_attacks::attacks().into_iter().map(|(_, attack)| attack));
    all.extend(crate::indirect::attacks().into_iter().map(|(_, attack)| attack));
    all.extend(crate::known::attacks());
    all.push(crate::known::replaced_expectation_attack());
    all.push(crate::known::recorder_method_call_attack());
    all
}
