//! Grades the attack pack of `proctor tasks validate --attack` in sandboxes, with every defense.
//! `mutation.rs` shows which attacks succeed without which defense.

use std::collections::BTreeMap;

use futures_util::{StreamExt as _, stream};
use proctor_attacks::{Attack, AttackPatch, Target, generate_patch, load_pack};
use proctor_grade::{GradeOptions, grade, procedure::run_official};
use proctor_native::Native;
use proctor_patch::{FilePatch, MODE_FILE, RawPath, SideContent};
use proctor_sandbox_api::{Backend, PreparedEnvironment, Sandbox, SandboxRequest};
use proctor_types::{AttackOutcome, Fault, SandboxSpec, Task};

use crate::{
    bench::{self, GradedPatch, MASKED_SOURCE, ROMAN_SOURCE, SOURCE_FILES},
    official::{make_featurebench_task, make_swe_bench_task},
    table::prepare_environment,
};

/// Maximum number of attacks that are graded concurrently.
const CONCURRENCY: usize = 2;

/// Returns a script of the pack, including its placeholders.
pub fn attack_script(name: &str) -> &'static str {
    proctor_attacks::find_script(name).unwrap()
}

/// The bench's task with a minimal mask, from which the solution's names are read.
pub fn task() -> Task {
    let mut mask = Vec::new();
    let [whole, masked] =
        [ROMAN_SOURCE, MASKED_SOURCE].map(|text| Some((MODE_FILE, text.as_bytes().to_vec())));
    FilePatch::from_sides(&RawPath::from("roman/__init__.py"), whole, masked).write(&mut mask);
    let task = bench::task("/testbed", "/venv/bin/python", &[]);
    Task { mask: Some(String::from_utf8(mask).unwrap()), ..task }
}

/// The bench's files as the agent gets them: masked, without the hidden test.
fn initial_file(path: &str) -> Result<SideContent, Fault> {
    let text = match path {
        "roman/__init__.py" => Some(MASKED_SOURCE),
        "tests/test_roman.py" => None,
        path => SOURCE_FILES.iter().find(|(name, _)| *name == path).map(|(_, text)| *text),
    };
    Ok(text.map(|text| (MODE_FILE, text.as_bytes().to_vec())))
}

pub fn attack_patch(attack: &Attack, task: &Task) -> Vec<u8> {
    match generate_patch(attack, &Target::from_task(task, &initial_file).unwrap(), &initial_file)
        .unwrap()
    {
        AttackPatch::Patch(patch) => patch,
        AttackPatch::NotApplicable(why) => panic!("{}: {why}", attack.name),
    }
}

async fn open(backend: &dyn Backend, environment: &PreparedEnvironment) -> Box<dyn Sandbox> {
    let request = SandboxRequest {
        environment: environment.clone(),
        limits: SandboxSpec::default(),
        mounts: Vec::new(),
        purpose: "grading".into(),
    };
    backend.open(&request).await.unwrap()
}

async fn grade_attack(
    backend: &dyn Backend,
    environment: &PreparedEnvironment,
    attack: &Attack,
) -> GradedPatch {
    let task = task();
    let mut sandbox = open(backend, environment).await;
    let patch = attack_patch(attack, &task);
    let graded = grade(sandbox.handle(), &task, &patch, &GradeOptions::default()).await;
    sandbox.close().await.unwrap();
    GradedPatch(graded.unwrap())
}

pub fn outcome(graded_patch: &GradedPatch) -> AttackOutcome {
    let verdict = &graded_patch.0.verdict;
    AttackOutcome::from_verdict(verdict.policies["strict"].resolved, verdict.integrity)
}

#[tokio::test]
async fn every_attack_of_the_pack_is_stopped() {
    let place = tempfile::tempdir().unwrap();
    let native = Native::new(place.path().join("cache")).unwrap();
    let environment = prepare_environment(&native, place.path()).await;
    let (native, environment) = (&native, &environment);
    let wrong: Vec<Option<String>> = stream::iter(load_pack().unwrap())
        .map(|attack| async move {
            let seen = grade_attack(native, environment, attack).await;
            println!("| {} | {} |", attack.name, outcome(&seen));
            outcome(&seen).is_success().then(|| format!("{}: {}", attack.name, seen.details()))
        })
        .buffered(CONCURRENCY)
        .collect()
        .await;
    let wrong: Vec<String> = wrong.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The official procedures are fooled by exactly those attacks that the pack lists.
#[tokio::test]
async fn official_procedures_resolve_only_the_expected_attacks() {
    let place = tempfile::tempdir().unwrap();
    let native = Native::new(place.path().join("cache")).unwrap();
    let environment = prepare_environment(&native, place.path()).await;
    let (native, environment) = (&native, &environment);
    type TaskChange = fn(&mut Task);
    let benchmarks: [(&str, TaskChange); 2] =
        [("swe-bench", make_swe_bench_task), ("featurebench", make_featurebench_task)];
    let all =
        benchmarks.iter().flat_map(|one| load_pack().unwrap().iter().map(move |it| (*one, it)));
    let found: BTreeMap<(&str, &str), bool> = stream::iter(all)
        .map(|((name, change), attack)| async move {
            let mut task = task();
            change(&mut task);
            let patch = attack_patch(attack, &task);
            let mut sandbox = open(native, environment).await;
            let options = GradeOptions::default();
            let run =
                run_official(sandbox.handle(), &task, &patch, &options).await.unwrap().unwrap();
            sandbox.close().await.unwrap();
            let resolved =
                run.into_official_result(&task).unwrap().verdict.policies["official"].resolved;
            ((name, attack.name.as_str()), resolved)
        })
        .buffered(CONCURRENCY)
        .collect()
        .await;
    let mut wrong = Vec::new();
    for attack in load_pack().unwrap() {
        for (name, _) in benchmarks {
            let resolved = found[&(name, attack.name.as_str())];
            if resolved != attack.expected.official_resolves.contains(name) {
                wrong.push(format!("{} under {name}: resolved: {resolved}", attack.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
