//! Runs each attack with different defenses disabled. An attack fails if any of the defenses
//! against it is enabled, and succeeds if all of these defenses are disabled.

use std::{
    collections::BTreeSet,
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use proctor_attacks::load_pack;
use proctor_grade::Defenses;
use proctor_patch::{FilePatch, MODE_FILE, RawPath};
use proctor_types::AttackOutcome;

use crate::{
    bench::{
        GradedPatch, defenses_without_screening, grade_patch, package_with_cheat, patch, python,
    },
    content::helper_attack,
    indirect, known,
    loading::SITECUSTOMIZE_SOURCE,
    pack::{attack_patch, attack_script, outcome, task},
    reading, recorder_attacks, roots, scratch,
};

/// Maximum number of attacks that are graded concurrently.
const CONCURRENCY: usize = 2;

/// An attack and the defenses that stop it. Each of these defenses alone is enough.
struct AttackCase {
    attack: String,
    stopping_defenses: Vec<String>,
    /// Defenses that only sometimes stop the attack. They are disabled whenever another defense is
    /// disabled.
    chance_defenses: Vec<String>,
    grade: Box<dyn Fn(Defenses) -> GradedPatch + Send + Sync>,
}

impl AttackCase {
    fn new(
        attack: &str,
        stopping_defenses: &[&str],
        grade: impl Fn(Defenses) -> GradedPatch + Send + Sync + 'static,
    ) -> Self {
        let stopping_defenses = stopping_defenses.iter().map(|name| (*name).to_owned()).collect();
        Self {
            attack: attack.to_owned(),
            stopping_defenses,
            chance_defenses: Vec::new(),
            grade: Box::new(grade),
        }
    }

    fn with_chance_defenses(self, defenses: &[String]) -> Self {
        Self { chance_defenses: defenses.to_vec(), ..self }
    }

    /// Grades with all defenses of this case disabled except `kept_defense`.
    fn grade_with_only(&self, kept_defense: Option<&str>) -> GradedPatch {
        let down = self.stopping_defenses.iter().filter(|name| Some(name.as_str()) != kept_defense);
        let down = down.chain(&self.chance_defenses);
        // Screening is irrelevant for an attack that other defenses stop during the run.
        let is_screened = self.stopping_defenses.iter().any(|name| name == "screen_patch");
        let up = if is_screened { Defenses::default() } else { defenses_without_screening() };
        (self.grade)(down.fold(up, |all, name| all.without(name)))
    }
}

/// The pack's attacks that a defense stops.
fn pack_cases() -> Vec<AttackCase> {
    let stopped = load_pack().unwrap().iter().filter(|attack| !attack.defenses.is_empty());
    stopped
        .map(|attack| {
            let patch = String::from_utf8(attack_patch(attack, &task())).unwrap();
            let names: Vec<&str> = attack.defenses.iter().map(String::as_str).collect();
            AttackCase::new(&attack.name, &names, move |defenses| {
                grade_patch(&patch, defenses, &[])
            })
            .with_chance_defenses(&attack.stopped_by_chance)
        })
        .collect()
}

/// Ends the interpreter after all reports are written but before the recorder's last record.
const EARLY_EXIT_CODE: &str = "
import os
import _pytest.config as _config
_config.Config._ensure_unconfigure = lambda self: os._exit(0)
";

/// A compiled helper whose hash Python does not check against the source.
fn compiled_helper_patch() -> String {
    let code = "
import importlib._bootstrap_external as pyc, importlib.util as util, sys
code = compile('def expected(number):\\n    return None\\n', 'tests/expected_of.py', 'exec')
sys.stdout.buffer.write(pyc._code_to_hash_pyc(code, bytes(8), False))
";
    let made = Command::new(python()).args(["-c", code]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let tag = "import sys; print(sys.implementation.cache_tag, end='')";
    let tag = Command::new(python()).args(["-c", tag]).output().unwrap();
    let tag = String::from_utf8(tag.stdout).unwrap();
    let path = RawPath::from(format!("tests/__pycache__/expected_of.{tag}.pyc"));
    let mut patch = Vec::new();
    FilePatch::from_sides(&path, None, Some((MODE_FILE, made.stdout))).write(&mut patch);
    String::from_utf8(patch).unwrap()
}

fn other_cases() -> Vec<AttackCase> {
    let runner = format!("{}\n{EARLY_EXIT_CODE}", attack_script("patched-runner.py"));
    let leaves = patch(&[("roman/__init__.py", Some(&package_with_cheat(&runner)))]);
    let mut helped = helper_attack("a compiled helper", "", &[]);
    helped.patch.push_str(&compiled_helper_patch());
    let loaded = patch(&[("sitecustomize.py", Some(SITECUSTOMIZE_SOURCE))]);
    let library = roots::find_attack("an assertion library at the top");
    let reader = reading::attacks().into_iter().next().unwrap();
    let unseen = known::replaced_expectation_attack();
    vec![
        AttackCase::new(
            "a patched runner that exits before the end",
            &["require_end", "canaries", "fingerprints"],
            move |defenses| grade_patch(&leaves, defenses, &[]),
        ),
        AttackCase::new("a compiled helper of the tests", &["remove_bytecode"], move |defenses| {
            helped.grade(defenses)
        }),
        AttackCase::new(
            "a fake assertion library at the top",
            &["remove_shadowing", "fingerprints"],
            move |defenses| library.grade(defenses),
        ),
        AttackCase::new(
            "a sitecustomize.py in a folder of PYTHONPATH",
            &["remove_self_loading", "guard_roots", "canaries"],
            move |defenses| grade_patch(&loaded, defenses, &[("PYTHONPATH", "WORKDIR")]),
        ),
        AttackCase::new(reader.name, &["see_readers"], move |defenses| reader.grade(defenses)),
        AttackCase::new(
            "an expectation replaced by a profile function",
            &["screen_patch", "see_readers"],
            move |defenses| unseen.grade(defenses),
        ),
        AttackCase::new(
            "the library itself, from scratch",
            &["guard_original"],
            scratch::grade_library_copy,
        ),
    ]
}

/// Attacks on the recorder itself, and indirect attacks.
fn recorder_cases() -> Vec<AttackCase> {
    let attacks = recorder_attacks::attacks().into_iter().chain(indirect::attacks());
    attacks
        .filter(|(stopped_by, _)| !stopped_by.is_empty())
        .map(|(stopped_by, attack)| {
            let name = attack.name;
            AttackCase::new(name, stopped_by, move |defenses| attack.grade(defenses))
                .with_chance_defenses(&["canaries".to_owned()])
        })
        .collect()
}

/// Returns the table lines of a case, or what is wrong with it.
fn check_case(case: &AttackCase) -> Result<Vec<String>, String> {
    let wrong = |which: &str, seen: &GradedPatch| {
        Err(format!("{}, {which}: {}", case.attack, seen.details()))
    };
    let up = (case.grade)(Defenses::default());
    if outcome(&up).is_success() {
        return wrong("with every defense", &up);
    }
    let open = case.grade_with_only(None);
    if !outcome(&open).is_success() {
        return wrong("without its defenses", &open);
    }
    let mut lines = Vec::new();
    for name in &case.stopping_defenses {
        // If this is the only defense, the complete grader has the same result.
        let with: AttackOutcome = match case.stopping_defenses.len() + case.chance_defenses.len() {
            1 => outcome(&up),
            _ => {
                let seen = case.grade_with_only(Some(name));
                if outcome(&seen).is_success() {
                    return wrong(&format!("with {name} alone"), &seen);
                }
                outcome(&seen)
            }
        };
        let others: Vec<&str> = case
            .stopping_defenses
            .iter()
            .map(String::as_str)
            .filter(|other| other != name)
            .collect();
        lines.push(format!(
            "| {name} | {} | {} | {with} | {} |",
            case.attack,
            others.join(", "),
            outcome(&open)
        ));
    }
    Ok(lines)
}

#[test]
fn each_attack_succeeds_without_its_defenses() {
    let cases: Vec<AttackCase> =
        pack_cases().into_iter().chain(other_cases()).chain(recorder_cases()).collect();
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..CONCURRENCY {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = check_case(case);
                    done.lock().unwrap().push(found);
                }
            });
        }
    });
    let mut lines = BTreeSet::new();
    let mut wrong = Vec::new();
    for found in done.into_inner().unwrap() {
        match found {
            Ok(found) => lines.extend(found),
            Err(why) => wrong.push(why),
        }
    }
    println!("| defense | attack | disabled with it | with it | without it |");
    println!("| --- | --- | --- | --- | --- |");
    lines.iter().for_each(|line| println!("{line}"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let tried: BTreeSet<&str> =
        cases.iter().flat_map(|case| &case.stopping_defenses).map(String::as_str).collect();
    assert_eq!(
        tried,
        BTreeSet::from(Defenses::NAMES),
        "every defense needs a case that shows its effect"
    );
}
