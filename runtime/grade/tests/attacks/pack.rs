//! The pack that `proctor tasks validate --attack` grades, on the bench: beaten with every defence up, and with its
//! own taken down it resolves.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt as _, stream};
use proctor_attacks::{Attack, Made, Target, make, pack};
use proctor_grade::{Defences, GradeOptions, grade, procedure::run_official};
use proctor_native::Native;
use proctor_patch::{FilePatch, MODE_FILE, RawPath, SideContent};
use proctor_sandbox_api::{Backend, Prepared, Sandbox, SandboxRequest};
use proctor_types::{AttackOutcome, Fault, SandboxSpec, Task};

use crate::{
    bench::{self, FILES, MASKED, ROMAN, Seen},
    official::{featurebench, swe_bench},
    table::environment,
};

/// Gradings at once.
const AT_ONCE: usize = 2;

/// A script of the pack, with its placeholders.
pub fn script(name: &str) -> &'static str {
    proctor_attacks::script(name).unwrap()
}

/// The bench's task, with a mask that changes no more than it must: the names of the solution are read from it.
fn task() -> Task {
    let mut mask = Vec::new();
    let [whole, masked] = [ROMAN, MASKED].map(|text| Some((MODE_FILE, text.as_bytes().to_vec())));
    FilePatch::between(&RawPath::from("roman/__init__.py"), whole, masked).write(&mut mask);
    let task = bench::task("/testbed", "/venv/bin/python", &[]);
    Task { mask: Some(String::from_utf8(mask).unwrap()), ..task }
}

/// The bench as the agent finds it: masked, without the hidden test.
fn start(path: &str) -> Result<SideContent, Fault> {
    let text = match path {
        "roman/__init__.py" => Some(MASKED),
        "tests/test_roman.py" => None,
        path => FILES.iter().find(|(name, _)| *name == path).map(|(_, text)| *text),
    };
    Ok(text.map(|text| (MODE_FILE, text.as_bytes().to_vec())))
}

fn made(attack: &Attack, task: &Task) -> Vec<u8> {
    match make(attack, &Target::of(task, &start).unwrap(), &start).unwrap() {
        Made::Patch(patch) => patch,
        Made::NotApplicable(why) => panic!("{}: {why}", attack.name),
    }
}

async fn open(backend: &dyn Backend, environment: &Prepared) -> Box<dyn Sandbox> {
    let request = SandboxRequest {
        environment: environment.clone(),
        limits: SandboxSpec::default(),
        mounts: Vec::new(),
        purpose: "grading".into(),
    };
    backend.open(&request).await.unwrap()
}

async fn graded(
    backend: &dyn Backend,
    environment: &Prepared,
    attack: &Attack,
    down: &[String],
) -> Seen {
    let task = task();
    let defences = down.iter().fold(Defences::default(), |all, name| all.without(name));
    let options = GradeOptions { defences, ..GradeOptions::default() };
    let mut sandbox = open(backend, environment).await;
    let graded = grade(sandbox.handle(), &task, &made(attack, &task), &options).await;
    sandbox.close().await.unwrap();
    Seen(graded.unwrap())
}

fn outcome(seen: &Seen) -> AttackOutcome {
    let verdict = &seen.0.verdict;
    AttackOutcome::of(verdict.policies["strict"].resolved, verdict.integrity)
}

#[tokio::test]
async fn every_attack_is_beaten_and_succeeds_without_its_defences() {
    let place = tempfile::tempdir().unwrap();
    let native = Native::new(place.path().join("cache")).unwrap();
    let environment = environment(&native, place.path()).await;
    let (native, environment) = (&native, &environment);
    let wrong: Vec<Option<String>> = stream::iter(pack().unwrap())
        .map(|attack| async move {
            let seen = graded(native, environment, attack, &[]).await;
            let mut line = format!("| {} | {} |", attack.name, outcome(&seen));
            let mut wrong = outcome(&seen).succeeded().then(|| seen.tell());
            if !attack.defences.is_empty() {
                let open = graded(native, environment, attack, &attack.defences).await;
                line.push_str(&format!(" {} | {} |", attack.defences.join(", "), outcome(&open)));
                wrong = wrong.or_else(|| (!open.resolved()).then(|| open.tell()));
            }
            println!("{line}");
            wrong.map(|told| format!("{}: {told}", attack.name))
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    let wrong: Vec<String> = wrong.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Defences that no attack of the pack tries on the bench, and the test of this folder that takes them down.
const ELSEWHERE: [(&str, &str); 7] = [
    ("restore_tests", "an_edited_test"),
    ("remove_shadowing", "a_module_in_the_place_of_one_that_the_environment_provides"),
    ("guard_roots", "a_module_in_the_place_of_one_that_the_environment_provides"),
    ("remove_bytecode", "compiled_code"),
    ("require_end", "an_exit_at_import_of_the_package"),
    ("guard_original", "scratch"),
    ("watch_content", "what_tests_rely_on_is_what_it_was_all_along"),
];

#[test]
fn every_defence_has_an_attack_that_succeeds_without_it() {
    let of_pack = pack().unwrap().iter().flat_map(|attack| &attack.defences).map(String::as_str);
    let tried: BTreeSet<&str> = of_pack.chain(ELSEWHERE.map(|(defence, _)| defence)).collect();
    assert_eq!(tried, BTreeSet::from(Defences::NAMES));
}

/// What an original lets pass is what it is known to let pass, and nothing else.
#[tokio::test]
async fn the_originals_let_pass_what_they_are_known_to() {
    let place = tempfile::tempdir().unwrap();
    let native = Native::new(place.path().join("cache")).unwrap();
    let environment = environment(&native, place.path()).await;
    let (native, environment) = (&native, &environment);
    type Change = fn(&mut Task);
    let benchmarks: [(&str, Change); 2] =
        [("swe-bench", swe_bench), ("featurebench", featurebench)];
    let all = benchmarks.iter().flat_map(|one| pack().unwrap().iter().map(move |it| (*one, it)));
    let found: BTreeMap<(&str, &str), bool> = stream::iter(all)
        .map(|((name, change), attack)| async move {
            let mut task = task();
            change(&mut task);
            let patch = made(attack, &task);
            let mut sandbox = open(native, environment).await;
            let options = GradeOptions::default();
            let run =
                run_official(sandbox.handle(), &task, &patch, &options).await.unwrap().unwrap();
            sandbox.close().await.unwrap();
            let resolved = run.alone(&task).unwrap().verdict.policies["official"].resolved;
            ((name, attack.name.as_str()), resolved)
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    let mut wrong = Vec::new();
    for attack in pack().unwrap() {
        for (name, _) in benchmarks {
            let resolved = found[&(name, attack.name.as_str())];
            if resolved != attack.expected.official_resolves.contains(name) {
                wrong.push(format!("{} under {name}: resolved: {resolved}", attack.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
