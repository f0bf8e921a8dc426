//! Attacks as data: the test of their class runs them on the bench, and `table.rs` on every back
//! end.

use proctor_grade::{Defences, GradeOptions};
use proctor_types::Integrity;

use crate::bench::{BenchTask, F2P, P2P, Seen, diff, graded_on, inner_defences, package, patch};

/// One attack: a patch that does not solve its own task.
#[derive(Clone)]
pub struct Attack {
    pub name: &'static str,
    pub given: Vec<(&'static str, String)>,
    pub env: Vec<(&'static str, &'static str)>,
    pub fail_to_pass: Vec<&'static str>,
    pub patch: String,
    /// Kinds of evidence, at least one of which must be found. Empty if the attack simply fails.
    pub seen_as: &'static [&'static str],
    /// Why it is not detected. Such an attack is in `docs/grading.md`.
    pub known: Option<&'static str>,
}

impl Attack {
    /// A cheating package: `cheat` precedes the masked module.
    pub fn cheat(name: &'static str, cheat: &str, seen_as: &'static [&'static str]) -> Self {
        Self::new(name, patch(&[("roman/__init__.py", Some(&package(cheat)))]), seen_as)
    }

    pub fn new(name: &'static str, patch: String, seen_as: &'static [&'static str]) -> Self {
        Self {
            name,
            given: Vec::new(),
            env: Vec::new(),
            fail_to_pass: Vec::new(),
            patch,
            seen_as,
            known: None,
        }
    }

    /// Adds a file to the source.
    pub fn on(mut self, file: &'static str, text: &str) -> Self {
        self.given.push((file, text.to_owned()));
        self
    }

    /// Replaces the bench's tests with one test that has to pass.
    pub fn asks(mut self, id: &'static str) -> Self {
        self.fail_to_pass.push(id);
        self
    }

    pub fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.env.push((name, value));
        self
    }

    /// Adds a file to the patch.
    pub fn adds(mut self, file: &str, text: &str) -> Self {
        self.patch.push_str(&diff(file, None, Some(text)));
        self
    }

    /// Changes a given file in the patch.
    pub fn edits(mut self, file: &str, text: &str) -> Self {
        let old = self.given.iter().find(|(name, _)| *name == file).map(|(_, text)| text.as_str());
        self.patch.push_str(&diff(file, old, Some(text)));
        self
    }

    pub fn grade(&self, defences: Defences) -> Seen {
        let given: Vec<(&str, &str)> =
            self.given.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let ground = BenchTask { given: &given, env: &self.env, fail_to_pass: &self.fail_to_pass };
        graded_on(&ground, &self.patch, &GradeOptions { defences, ..GradeOptions::default() })
    }

    /// Asserts that the attack fails with all defences and is detected as what it is, and that it
    /// resolves cleanly without the named ones.
    pub fn fails_but_for(&self, names: &[&str]) {
        let wrong = self.wrong(names);
        assert!(wrong.is_none(), "{}", wrong.unwrap());
    }

    /// Canaries have tests of their own; disabling them shows the other defences.
    pub fn wrong(&self, names: &[&str]) -> Option<String> {
        let seen = self.grade(inner_defences());
        if !self.is_beaten(&seen) {
            return Some(format!("{}: {}", self.name, seen.tell()));
        }
        let off = inner_defences().without("canaries");
        let open = names.iter().fold(off, |all, name| all.without(name));
        let open = (!names.is_empty()).then(|| self.grade(open))?;
        (!open.resolved() || open.suspect())
            .then(|| format!("{}, open: {}", self.name, open.tell()))
    }

    pub fn is_beaten(&self, seen: &Seen) -> bool {
        let clean = seen.0.verdict.integrity == Integrity::Clean;
        let is_seen = self.seen_as.is_empty() || self.seen_as.iter().any(|kind| seen.has(kind));
        is_seen && !(seen.resolved() && clean)
    }
}

/// The ids that an attack wants to pass, as a Python set. Canaries are not among them.
pub fn known_ids() -> String {
    let ids: Vec<&str> = F2P.into_iter().chain(P2P).collect();
    format!("IDS = {ids:?}\n")
}

/// Finds pytest's session or configuration from inside a call.
pub const WALK: &str = r#"
import sys

def find(kind):
    frame = sys._getframe()
    while frame is not None:
        for value in list(frame.f_locals.values()):
            if type(value).__name__ == kind:
                return value
        frame = frame.f_back
"#;

pub fn all() -> Vec<Attack> {
    let mut all = crate::roots::attacks();
    all.extend(crate::content::attacks());
    all.extend(crate::sight::attacks());
    all.extend(crate::attempts::attacks());
    all.extend(crate::reading::attacks());
    all.extend(crate::closed::attacks().into_iter().map(|(_, attack)| attack));
    all.extend(crate::indirect::attacks().into_iter().map(|(_, attack)| attack));
    all.extend(crate::known::attacks());
    all.push(crate::known::exchanged_expectation());
    all.push(crate::known::own_methods_called());
    all
}
