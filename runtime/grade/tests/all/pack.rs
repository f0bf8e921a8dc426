//! The pack that `proctor tasks validate --attack` grades, in sandboxes, with every defence.
//! `mutation.rs` shows which attacks succeed without which defence.

use std::collections::BTreeMap;

use futures_util::{StreamExt as _, stream};
use proctor_attacks::{Attack, Made, Target, make, pack};
use proctor_grade::{GradeOptions, grade, procedure::run_official};
use proctor_native::Native;
use proctor_patch::{FilePatch, MODE_FILE, RawPath, SideContent};
use proctor_sandbox_api::{Backend, Prepared, Sandbox, SandboxRequest};
use proctor_types::{AttackOutcome, Fault, SandboxSpec, Task};

use crate::{
    bench::{self, FILES, MASKED, ROMAN, Seen},
    official::{featurebench, swe_bench},
    table::environment,
};

/// Concurrent gradings.
const AT_ONCE: usize = 2;

/// A script of the pack, with its placeholders.
pub fn script(name: &str) -> &'static str {
    proctor_attacks::script(name).unwrap()
}

/// The bench's task with a minimal mask: the solution's names are read from it.
pub fn task() -> Task {
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

pub fn made(attack: &Attack, task: &Task) -> Vec<u8> {
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

async fn graded(backend: &dyn Backend, environment: &Prepared, attack: &Attack) -> Seen {
    let task = task();
    let mut sandbox = open(backend, environment).await;
    let patch = made(attack, &task);
    let graded = grade(sandbox.handle(), &task, &patch, &GradeOptions::default()).await;
    sandbox.close().await.unwrap();
    Seen(graded.unwrap())
}

pub fn outcome(seen: &Seen) -> AttackOutcome {
    let verdict = &seen.0.verdict;
    AttackOutcome::of(verdict.policies["strict"].resolved, verdict.integrity)
}

#[tokio::test]
async fn every_attack_is_beaten() {
    let place = tempfile::tempdir().unwrap();
    let native = Native::new(place.path().join("cache")).unwrap();
    let environment = environment(&native, place.path()).await;
    let (native, environment) = (&native, &environment);
    let wrong: Vec<Option<String>> = stream::iter(pack().unwrap())
        .map(|attack| async move {
            let seen = graded(native, environment, attack).await;
            println!("| {} | {} |", attack.name, outcome(&seen));
            outcome(&seen).succeeded().then(|| format!("{}: {}", attack.name, seen.tell()))
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    let wrong: Vec<String> = wrong.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The originals let the attacks pass that they are known to, and no others.
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
