//! Tests that the generated patches apply to the masked source.

#![expect(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

use std::collections::BTreeMap;

use proctor_attacks::{AttackPatch, Runner, Target, generate_patch, load_pack};
use proctor_patch::{MODE_FILE, Patch, SideContent};
use proctor_types::{Fault, Task};
use serde_json::json;

const INIT: &str = "from coins.sides import heads\n\n__all__ = [\"heads\"]\n";
const SIDES: &str = "\"\"\"Sides.\"\"\"\n\n\ndef heads():\n    return 1\n\n\nclass Coin:\n    def toss(self):\n        raise NotImplementedError\n";
const MASK: &str = r#"diff --git a/coins/__init__.py b/coins/__init__.py
--- a/coins/__init__.py
+++ b/coins/__init__.py
@@ -1,3 +1,3 @@
-from coins.sides import heads, tails
+from coins.sides import heads
 
 __all__ = ["heads"]
diff --git a/coins/sides.py b/coins/sides.py
--- a/coins/sides.py
+++ b/coins/sides.py
@@ -3,12 +3,8 @@
 
 def heads():
     return 1
 
 
 class Coin:
     def toss(self):
-        return heads()
-
-
-def tails():
-    return 0
+        raise NotImplementedError
"#;

fn task() -> Task {
    serde_json::from_value(json!({
        "schema_version": 1, "id": "coins-1", "statement": "", "environment": {},
        "mask": MASK, "fail_to_pass": ["tests/test_coins.py::test_tails"],
        "pass_to_pass": ["tests/test_coins.py::test_heads"],
        "test_command": ["/venv/bin/python", "-m", "pytest", "-q"],
    }))
    .unwrap()
}

fn initial_file(path: &str) -> Result<SideContent, Fault> {
    let files = BTreeMap::from([
        ("coins/__init__.py", INIT),
        ("coins/sides.py", SIDES),
        ("tests/conftest.py", "X = 1"),
    ]);
    Ok(files.get(path).map(|text| (MODE_FILE, text.as_bytes().to_vec())))
}

fn generate(name: &str, task: &Task) -> AttackPatch {
    let attack = load_pack().unwrap().iter().find(|attack| attack.name == name).unwrap();
    generate_patch(attack, &Target::from_task(task, &initial_file).unwrap(), &initial_file).unwrap()
}

fn patch_text(result: AttackPatch) -> String {
    match result {
        AttackPatch::Patch(patch) => String::from_utf8(patch).unwrap(),
        AttackPatch::NotApplicable(why) => panic!("{why}"),
    }
}

#[test]
fn solution_names_include_added_changed_and_imported_names() {
    let target = Target::from_task(&task(), &initial_file).unwrap();
    assert_eq!(target.runner, Runner::Pytest);
    let names = |path: &str| {
        let module = target.modules.iter().find(|module| module.path == path).unwrap();
        assert_eq!(module.package(), "coins");
        module.names.iter().cloned().collect::<Vec<_>>()
    };
    assert_eq!(names("coins/sides.py"), ["Coin", "tails"]);
    assert_eq!(names("coins/__init__.py"), ["tails"]);
    assert_eq!(target.modules[0].path, "coins/sides.py");
}

#[test]
fn generate_patch_creates_a_patch_for_every_attack() {
    let task = task();
    let target = Target::from_task(&task, &initial_file).unwrap();
    for attack in load_pack().unwrap() {
        let AttackPatch::Patch(patch) = generate_patch(attack, &target, &initial_file).unwrap()
        else {
            panic!("{} is not applicable", attack.name);
        };
        assert_eq!(patch.is_empty(), attack.files.is_empty(), "{}", attack.name);
        let read = Patch::parse(&patch);
        let touched = read.touched_paths().unwrap();
        let distinct = read.paths();
        assert_eq!(distinct.len(), read.files.len(), "{}: duplicate path", attack.name);
        assert!(!touched.is_empty() || patch.is_empty(), "{}", attack.name);
    }
    let both = patch_text(generate("late-writer", &task));
    assert!(both.contains("+    globals()[_name] = lambda"), "{both}");
    assert!(both.contains("+        for _ in range(1200):"), "{both}");
    // The patch keeps existing content and adds a missing final newline.
    let conftest = patch_text(generate("conftest-beside-tests", &task));
    assert!(conftest.contains("-X = 1\n\\ No newline at end of file\n+X = 1\n"), "{conftest}");
}

#[test]
fn generate_patch_uses_a_relative_path_without_a_workdir() {
    let mut task = task();
    assert!(patch_text(generate("path-wrapper", &task)).contains("= \"/testbed/bin:\""));
    task.workdir = String::new();
    assert!(patch_text(generate("path-wrapper", &task)).contains("= \"./bin:\""));
}

#[test]
fn generate_patch_reports_why_an_attack_is_not_applicable() {
    let mut task = task();
    task.mask = None;
    let why = |made| match made {
        AttackPatch::NotApplicable(why) => why,
        AttackPatch::Patch(_) => panic!("the attack was generated"),
    };
    assert_eq!(why(generate("early-exit", &task)), "the task has no gold patch");
    patch_text(generate("huge-tree", &task));
    task.mask = Some(MASK.into());
    task.test_command = vec!["./tests/runtests.py".into()];
    let reason = "the attack does not apply to tests run by unittest";
    assert_eq!(why(generate("conftest-hook", &task)), reason);
    patch_text(generate("equal-to-everything", &task));
}
