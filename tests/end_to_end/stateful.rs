//! Tests trials with state outside the work directory. Each trial is killed after its second step
//! and then resumed. It must end in the same way as a trial that was not killed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use fake_llm::{FakeLlm, Script};
use serde_json::{Value, json};

use crate::{
    resume::wait_for,
    stage::{Stage, events, find_files, has_docker},
    tier::is_full,
};

/// What must happen after a kill.
enum ExpectedRecovery {
    /// The same try continues.
    Resumed,
    /// The trial starts again, and the recorded reason contains the given text.
    StartedAgain(&'static str),
}

use ExpectedRecovery::{Resumed, StartedAgain};

/// A test case: its name, whether the core tier runs it, what must happen after a kill, and the
/// commands of three steps. The last command writes what it finds to `out.txt`.
type Case = (&'static str, bool, ExpectedRecovery, [&'static str; 3]);

/// Number of trials that run at the same time.
const MAX_CONCURRENT_TRIALS: usize = 6;

static CASES: [Case; 20] = [
    (
        "script-in-tmp",
        true,
        Resumed,
        [
            "echo 'echo first > out.txt' > /tmp/solve.sh",
            "echo 'echo second >> out.txt' >> /tmp/solve.sh",
            "sh /tmp/solve.sh",
        ],
    ),
    (
        "settings-at-home",
        false,
        Resumed,
        [
            "mkdir -p /root/.config/tool; echo one > /root/.config/tool/rc",
            "echo two >> /root/.config/tool/rc; chmod 600 /root/.config/tool/rc",
            "cat /root/.config/tool/rc > out.txt; stat -c %a /root/.config/tool/rc >> out.txt",
        ],
    ),
    (
        "installed-wheel",
        true,
        Resumed,
        [
            r#"/venv/bin/python - <<'END'
import zipfile
info = "helper-1.0.dist-info/"
with zipfile.ZipFile("/tmp/helper-1.0-py3-none-any.whl", "w") as wheel:
    wheel.writestr("helper/__init__.py", "VALUE = 1\n")
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: helper\nVersion: 1.0\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(info + "RECORD", "helper/__init__.py,,\n")
END"#,
            "/venv/bin/pip install --quiet --no-index --no-deps /tmp/helper-1.0-py3-none-any.whl",
            "/venv/bin/python -c 'import helper; print(helper.VALUE)' > out.txt",
        ],
    ),
    (
        "edited-package",
        false,
        Resumed,
        [
            "d=$(/venv/bin/python -c 'import iniconfig as i; print(i.__file__)'); echo 'MARK = 1' >> $d",
            "d=$(/venv/bin/python -c 'import iniconfig as i; print(i.__file__)'); echo 'MARK = 2' >> $d",
            "/venv/bin/python -c 'import iniconfig; print(iniconfig.MARK)' > out.txt",
        ],
    ),
    (
        "removed-programs",
        true,
        Resumed,
        [
            "rm /venv/bin/pip*",
            "true",
            "ls /venv/bin/pip* > out.txt 2> /dev/null; echo done >> out.txt",
        ],
    ),
    (
        "replaced-folder",
        false,
        Resumed,
        [
            "rm -rf /venv/bin.old; cp -r /venv/bin /venv/bin.old; rm -rf /venv/bin; mkdir /venv/bin",
            "echo only > /venv/bin/one",
            "ls -A /venv/bin > out.txt; ls /venv/bin.old | grep -c . >> out.txt",
        ],
    ),
    (
        "links",
        false,
        Resumed,
        [
            "echo one > /tmp/real; ln -s /tmp/real /tmp/link; ln -s nowhere /tmp/broken",
            "echo two >> /tmp/link",
            "cat /tmp/link > out.txt; readlink /tmp/broken >> out.txt",
        ],
    ),
    (
        "shared-memory-file",
        false,
        Resumed,
        ["echo one > /dev/shm/state", "echo two >> /dev/shm/state", "cat /dev/shm/state > out.txt"],
    ),
    (
        "modes-and-empty-folders",
        false,
        Resumed,
        [
            "mkdir -p /var/tmp/made/empty; chmod 700 /var/tmp/made",
            ": > /var/tmp/made/zero; chmod 4755 /var/tmp/made/zero; chown 7:8 /var/tmp/made/zero",
            "stat -c '%a %u %g %n' /var/tmp/made /var/tmp/made/* > out.txt",
        ],
    ),
    (
        "binary-with-an-odd-name",
        false,
        Resumed,
        [
            "printf 'a\\0b' > '/tmp/odd name'",
            "printf 'c\\377' >> '/tmp/odd name'",
            "od -An -c '/tmp/odd name' > out.txt",
        ],
    ),
    (
        "database",
        false,
        Resumed,
        [
            "/venv/bin/python -c \"import sqlite3; c = sqlite3.connect('/tmp/d.db'); c.execute('create table t (n)'); c.execute('insert into t values (1)'); c.commit()\"",
            "/venv/bin/python -c \"import sqlite3; c = sqlite3.connect('/tmp/d.db'); c.execute('insert into t values (2)'); c.commit()\"",
            "/venv/bin/python -c \"import sqlite3; print(sqlite3.connect('/tmp/d.db').execute('select sum(n) from t').fetchone()[0])\" > out.txt",
        ],
    ),
    (
        "commits",
        true,
        Resumed,
        [
            "git init -q . && git add -A && git -c user.name=a -c user.email=a@b -c maintenance.auto=false commit -qm first",
            "echo two > two.txt; git add -A; git -c user.name=a -c user.email=a@b -c maintenance.auto=false commit -qm second",
            "git log --format=%s > out.txt; git status --porcelain >> out.txt",
        ],
    ),
    (
        "stash",
        false,
        Resumed,
        [
            "git init -q . && git add -A && git -c user.name=a -c user.email=a@b -c maintenance.auto=false commit -qm first",
            "echo '# more' >> numerals/tally.py; git -c user.name=a -c user.email=a@b stash -q",
            "git stash pop -q; tail -n 1 numerals/tally.py > out.txt",
        ],
    ),
    (
        "nested-repository",
        false,
        Resumed,
        [
            "git init -q inner; echo a > inner/a; git -C inner add a; git -C inner -c user.name=a -c user.email=a@b -c maintenance.auto=false commit -qm inside",
            "git -C inner checkout -qb topic",
            "git -C inner branch --show-current > out.txt; git -C inner log --format=%s >> out.txt",
        ],
    ),
    (
        "repository-in-tmp",
        false,
        Resumed,
        [
            "git init -q /tmp/repo; echo a > /tmp/repo/a; git -C /tmp/repo add a; git -C /tmp/repo -c user.name=a -c user.email=a@b -c maintenance.auto=false commit -qm one",
            "git -C /tmp/repo checkout -qb topic; git -C /tmp/repo -c user.name=a -c user.email=a@b -c maintenance.auto=false commit -q --allow-empty -m two",
            "git -C /tmp/repo branch --show-current > out.txt; git -C /tmp/repo log --format=%s >> out.txt",
        ],
    ),
    (
        "server",
        true,
        StartedAgain("agent processes were still running"),
        [
            "setsid /venv/bin/python -m http.server 8123 > /dev/null 2>&1 & sleep 1",
            "true",
            "/venv/bin/python -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:8123/\").status)' > out.txt",
        ],
    ),
    (
        "worker",
        false,
        StartedAgain("agent processes were still running"),
        [
            "setsid sh -c 'while sleep 0.1; do echo beat >> /tmp/beats; done' > /dev/null 2>&1 & sleep 1",
            "true",
            "test -s /tmp/beats; echo $? > out.txt",
        ],
    ),
    (
        "socket",
        false,
        StartedAgain("/tmp/sock is a socket"),
        [
            "/venv/bin/python -c \"import socket; socket.socket(socket.AF_UNIX).bind('/tmp/sock')\"",
            "true",
            "test -S /tmp/sock; echo $? > out.txt",
        ],
    ),
    (
        "pipe",
        false,
        StartedAgain("/tmp/pipe is a socket, a pipe or a device"),
        ["mkfifo /tmp/pipe", "true", "test -p /tmp/pipe; echo $? > out.txt"],
    ),
    (
        "large-file",
        true,
        StartedAgain("/tmp/large is larger than 64 MiB"),
        ["head -c 70000000 /dev/zero > /tmp/large", "true", "stat -c %s /tmp/large > out.txt"],
    ),
];

/// Returns a script in which a model runs the commands of a case. With `blocks_submission`, the
/// third response is never sent, so its request is in flight when the runtime is killed.
fn script(commands: &[&str; 3], blocks_submission: bool) -> Script {
    let mut turns: Vec<Value> = commands
        .iter()
        .map(
            |command| json!({"tool_calls": [{"name": "shell", "arguments": {"command": command}}]}),
        )
        .collect();
    turns.push(json!({"tool_calls": [{"name": "submit", "arguments": {}}]}));
    if blocks_submission {
        turns[2]["fault"] = json!([{"kind": "drop", "delay_seconds": 3600.0}]);
    }
    serde_json::from_value(json!({"conversation": [{"turn": turns}]})).unwrap()
}

/// Returns whether the third response was requested.
fn is_in_third_step(fake: &FakeLlm) -> bool {
    fake.requests().iter().any(|seen| {
        let messages = seen.body["messages"].as_array().into_iter().flatten();
        messages.filter(|one| one["role"] == "assistant").count() == 2
    })
}

/// A run of several cases in parallel, each of which is an arm.
struct ParallelRun {
    stage: Stage,
    fakes: Vec<FakeLlm>,
    config: PathBuf,
    out: PathBuf,
    _runtime: tokio::runtime::Runtime,
}

impl ParallelRun {
    fn new(cases: &[&Case], kind: &str, blocks_submission: bool) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let stage = Stage::new();
        let mut text = format!(
            "tasks = [\"configs/tasks/demo.jsonl\"]\njobs = {MAX_CONCURRENT_TRIALS}\n\
             [sandbox]\nkind = \"{kind}\"\n[budget]\nsteps = 9\n"
        );
        let mut fakes = Vec::new();
        for (name, _, _, commands) in cases {
            let fake =
                runtime.block_on(FakeLlm::start(script(commands, blocks_submission))).unwrap();
            text += &format!(
                "[[arms]]\nname = \"{name}\"\nscaffold = \"tools\"\nmodel = \"{name}\"\n\
                 [models.{name}]\nbase_url = \"{}\"\nname = \"{name}\"\n",
                fake.base_url()
            );
            fakes.push(fake);
        }
        let config = stage.write_file("run.toml", &text);
        let out = stage.path("run");
        Self { stage, fakes, config, out, _runtime: runtime }
    }

    fn run_args(&self) -> [&str; 4] {
        ["run", self.config.to_str().unwrap(), "--out", self.out.to_str().unwrap()]
    }

    /// Returns the journal of the trial of an arm.
    fn arm_journal(&self, report: &Value, arm: &str) -> PathBuf {
        let arms = report["arms"].as_array().unwrap();
        let id = &arms.iter().find(|one| one["name"] == arm).unwrap()["arm"];
        let journals = find_files(&self.out.join("trials"), "trajectory.jsonl");
        let is_of_arm = |journal: &PathBuf| {
            let is_earlier = journal.components().any(|part| part.as_os_str() == "tries");
            !is_earlier && events(journal, "trial_started")[0]["arm"] == *id
        };
        journals.into_iter().find(is_of_arm).unwrap()
    }
}

fn read_patch(journal: &Path) -> String {
    fs::read_to_string(journal.with_file_name("patch.diff")).unwrap()
}

fn check_resumed_matches_undisturbed(kind: &str) {
    let cases: Vec<&Case> = CASES.iter().filter(|case| is_full() || case.1).collect();
    for cases in cases.chunks(MAX_CONCURRENT_TRIALS) {
        let plain = ParallelRun::new(cases, kind, false);
        plain.stage.run(plain.run_args(), 0);

        let killed = ParallelRun::new(cases, kind, true);
        let mut child = killed.stage.proctor(killed.run_args());
        let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_for("the third step of every trial", || {
            killed.fakes.iter().all(is_in_third_step).then_some(())
        });
        child.kill().unwrap();
        child.wait().unwrap();
        let out = killed.out.to_str().unwrap();
        let said = killed.stage.run(["resume", out], 0);
        let said = String::from_utf8_lossy(&said.stderr).into_owned();

        let reports = [plain.stage.report(&plain.out), killed.stage.report(&killed.out)];
        let text = killed.stage.run(["report", out, "--findings"], 0);
        let text = String::from_utf8_lossy(&text.stdout).into_owned();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for (name, _, then, _) in cases {
            let journals =
                [plain.arm_journal(&reports[0], name), killed.arm_journal(&reports[1], name)];
            let [undisturbed, resumed] = journals.each_ref().map(|journal| read_patch(journal));
            assert!(undisturbed.contains("out.txt"), "{name}: {undisturbed}");
            assert_eq!(undisturbed, resumed, "{name}\n{said}");
            let id = &events(&journals[1], "trial_started")[0]["arm"];
            let rows = reports[1]["tasks"].as_array().unwrap();
            let row = rows.iter().find(|row| row["arm"] == *id).unwrap();
            assert_eq!(row["outcome"], "submitted", "{name}: {row:#}");
            let tries = journals[1].with_file_name("tries");
            match then {
                Resumed => {
                    let expected = json!({"resumed_after": [2]});
                    assert_eq!(row["interruptions"], expected, "{name}\n{said}");
                    assert!(!tries.exists(), "{name}: the trial must continue in the same try");
                }
                StartedAgain(why) => {
                    let told = row["interruptions"]["started_again"].as_str().unwrap_or_default();
                    assert!(told.contains(why), "{name}: {row:#}\n{said}");
                    assert!(tries.exists(), "{name}: the interrupted try is kept");
                }
            }
            let marked = format!("{name} / demo__roman-1 / 1: interrupted: ");
            assert!(text.contains(&marked), "{name}\n{text}");
        }
    }
}

#[test]
fn resumed_trials_keep_their_state_outside_the_work_directory() {
    check_resumed_matches_undisturbed("native");
}

#[test]
fn docker_resumed_trials_keep_their_state_outside_the_work_directory() {
    let test = "docker_resumed_trials_keep_their_state_outside_the_work_directory";
    if is_full() && has_docker(test) {
        check_resumed_matches_undisturbed("docker");
    }
}
