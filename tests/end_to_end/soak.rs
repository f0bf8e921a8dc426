//! Runs many trials and kills the runtime with `kill -9` at random moments. Every planned trial
//! must end with one outcome and one verdict. Nothing that is finished may be done or paid for
//! again, and nothing may be left on the machine.
//!
//! By default, there are 20 trials and 4 kills; with `PROCTOR_TIER=full`, there are 150 trials and
//! 20 kills. `PROCTOR_SOAK=TRIALS,KILLS` sets other numbers, and `PROCTOR_SOAK_KIND=docker` selects
//! the other back end. `PROCTOR_SOAK_SEED` repeats the moments of an earlier soak, which printed
//! its seed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::{MetadataExt, chown},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use fake_llm::{FakeLlm, Script};
use serde_json::Value;

use crate::{
    resume::wait_for,
    stage::{Stage, events, find_arm, find_files, has_docker},
    tier::is_full,
    users,
};

/// A script in which each attempt prints a unique name in its first output and leaves a process
/// behind. The name identifies the attempt in the log of the model.
const SCRIPT: &str = r#"
[[conversation]]
[[conversation.turn]]
delay_seconds = 0.1
[[conversation.turn.tool_calls]]
name = "shell"
arguments = { command = "setsid sleep SECONDS & tee id.txt < /proc/sys/kernel/random/uuid" }
[[conversation.turn]]
delay_seconds = 0.2
[[conversation.turn.tool_calls]]
name = "shell"
arguments = { command = "sleep 0.2; echo two > two.txt" }
[[conversation.turn]]
delay_seconds = 0.1
[[conversation.turn.tool_calls]]
name = "submit"
arguments = {}
"#;

const RESPONSES_PER_TRIAL: usize = 3;
const JOBS: usize = 4;

/// Number of trials and number of kills in the full tier.
const FULL_SIZE: (usize, usize) = (150, 20);

/// Maximum time between a start and the kill that follows it, in milliseconds.
const MAX_KILL_DELAY_MS: u64 = 6_000;

struct SoakSize {
    trials: usize,
    kills: usize,
}

impl SoakSize {
    fn from_env(core_size: (usize, usize)) -> Self {
        let asked = std::env::var("PROCTOR_SOAK").ok();
        let (trials, kills) = match asked.as_deref().map(|asked| asked.split_once(',')) {
            None if is_full() => FULL_SIZE,
            None => core_size,
            Some(Some((trials, kills))) => (trials.parse().unwrap(), kills.parse().unwrap()),
            Some(None) => panic!("PROCTOR_SOAK=TRIALS,KILLS"),
        };
        Self { trials, kills }
    }
}

/// A generator of random times for the kills. The same seed gives the same times.
struct KillTimes(u64);

impl KillTimes {
    fn new() -> Self {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
        let seed = std::env::var("PROCTOR_SOAK_SEED").ok().map(|seed| seed.parse().unwrap());
        let seed = seed.unwrap_or(now | 1);
        eprintln!("PROCTOR_SOAK_SEED={seed}");
        Self(seed)
    }

    fn next_delay(&mut self) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Duration::from_millis(50 + self.0 % MAX_KILL_DELAY_MS)
    }
}

struct Soak {
    stage: Stage,
    fake: FakeLlm,
    out: PathBuf,
    cache: PathBuf,
    temporary_folder: PathBuf,
    sleeper: String,
    pids: Vec<u32>,
    _runtime: tokio::runtime::Runtime,
}

impl Soak {
    fn new(stage: Stage, kind: &str, trials: usize) -> (Self, PathBuf) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        // An unusual number of seconds identifies the `sleep` process of this test.
        let seconds = 1_000_000 + u64::from(std::process::id()) * 2 + u64::from(kind == "docker");
        let script: Script =
            toml::from_str(&SCRIPT.replace("SECONDS", &seconds.to_string())).unwrap();
        let fake = runtime.block_on(FakeLlm::start(script)).unwrap();
        let text = format!(
            "tasks = [\"configs/tasks/demo.jsonl\"]\nattempts = {trials}\njobs = {JOBS}\n\
             [sandbox]\nkind = \"{kind}\"\n\
             [[arms]]\nname = \"asks\"\nscaffold = \"tools\"\nmodel = \"fake\"\n\
             [models.fake]\nbase_url = \"{}\"\nname = \"fake\"\n",
            fake.base_url()
        );
        let config = stage.write_file("run.toml", &text);
        let (out, cache) = (stage.path("run"), stage.path("cache"));
        let temporary = stage.path("temporary");
        fs::create_dir(&temporary).unwrap();
        // The owner of the stage must be able to write to this folder.
        let owner = fs::metadata(stage.dir.path()).unwrap();
        chown(&temporary, Some(owner.uid()), Some(owner.gid())).unwrap();
        let sleeper = format!("sleep {seconds}");
        let soak = Self {
            stage,
            fake,
            out,
            cache,
            temporary_folder: temporary,
            sleeper,
            pids: Vec::new(),
            _runtime: runtime,
        };
        (soak, config)
    }

    fn start(&mut self, args: &[&str]) -> std::process::Child {
        let mut command = self.stage.proctor(args);
        command.env("PROCTOR_CACHE", &self.cache).env("TMPDIR", &self.temporary_folder);
        let log = fs::File::options().create(true).append(true).open(self.stage.path("log"));
        let child = command.stdout(Stdio::null()).stderr(log.unwrap()).spawn().unwrap();
        self.pids.push(child.id());
        child
    }

    fn log(&self) -> String {
        fs::read_to_string(self.stage.path("log")).unwrap_or_default()
    }

    /// Returns the journals of trials that have ended. They must not change anymore.
    fn ended_journals(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let journals = find_files(&self.out.join("trials"), "trajectory.jsonl").into_iter();
        journals
            .filter_map(|path| Some((fs::read(&path).ok()?, path)))
            .filter(|(bytes, _)| {
                let text = String::from_utf8_lossy(bytes);
                text.ends_with('\n')
                    && text.lines().last().is_some_and(|line| line.contains("\"trial_ended\""))
            })
            .map(|(bytes, path)| (path, bytes))
            .collect()
    }

    /// Counts the processes that this test has left in sandboxes.
    fn count_sleepers(&self) -> usize {
        let wanted = self.sleeper.replace(' ', "\0") + "\0";
        let processes = fs::read_dir("/proc").unwrap().flatten();
        processes
            .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
            .filter(|line| *line == wanted.as_bytes())
            .count()
    }

    /// Returns the responses to each attempt in the model's log. A request belongs to the attempt
    /// whose name it contains. An attempt's first request contains no name, so such requests are
    /// only counted.
    fn responses_by_attempt(&self) -> (usize, BTreeMap<String, Vec<usize>>) {
        let (mut first, mut named) = (0, BTreeMap::<String, Vec<usize>>::new());
        for seen in self.fake.requests() {
            let messages = seen.body["messages"].as_array().unwrap();
            let turn = messages.iter().filter(|one| one["role"] == "assistant").count();
            let said = messages.iter().find(|one| one["role"] == "tool");
            match said.map(|one| attempt_name(&one["content"])) {
                None => first += 1,
                Some(name) => named.entry(name).or_default().push(turn),
            }
        }
        (first, named)
    }
}

/// Returns the attempt's name, which is the first UUID in the tool's output.
fn attempt_name(content: &Value) -> String {
    let text = content.to_string();
    let words = text.split(|one: char| !(one.is_ascii_hexdigit() || one == '-'));
    words.filter(|word| word.len() == 36).map(str::to_owned).next().unwrap_or(text)
}

fn find_matching(folder: &Path, is_match: &dyn Fn(&str) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if is_match(&entry.file_name().to_string_lossy()) {
            found.push(entry.path());
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(find_matching(&entry.path(), is_match));
        }
    }
    found
}

fn run_soak(stage: Stage, kind: &str, size: &SoakSize) {
    let (mut soak, config) = Soak::new(stage, kind, size.trials);
    let out = soak.out.to_str().unwrap().to_owned();
    let mut instants = KillTimes::new();
    let begun = Instant::now();
    let mut done = BTreeMap::<PathBuf, Vec<u8>>::new();
    let (mut kills, mut early) = (0, 0);
    // If the plan was not written before the kill, the run cannot be resumed. The trials start
    // again, and the kill is not counted.
    while kills < size.kills {
        let planned = soak.out.join("run.json").exists();
        let args: Vec<&str> = match planned {
            true => vec!["resume", &out],
            false => vec!["run", config.to_str().unwrap(), "--out", &out, "--no-preflight"],
        };
        let mut child = soak.start(&args);
        sleep(instants.next_delay());
        assert!(
            child.try_wait().unwrap().is_none_or(|status| status.code() == Some(0)),
            "{}",
            soak.log()
        );
        let killed = child.try_wait().unwrap().is_none();
        child.kill().unwrap();
        child.wait().unwrap();
        if !soak.out.join("run.json").exists() {
            early += 1;
            assert!(early < 100, "{}", soak.log());
            // An incomplete run directory would prevent the next start.
            let _ = fs::remove_dir_all(&soak.out);
            continue;
        }
        kills += usize::from(killed);
        if !killed {
            eprintln!("all trials were done after {kills} kills");
            break;
        }
        wait_for("the sandboxes to end with their runtime", || {
            (soak.count_sleepers() == 0).then_some(())
        });
        let now = soak.ended_journals();
        for (path, bytes) in &done {
            assert_eq!(now.get(path), Some(bytes), "{} was changed", path.display());
        }
        done = now;
    }
    let mut last = soak.start(&["resume", &out]);
    let status = last.wait().unwrap();
    assert_eq!(status.code(), Some(0), "{}", soak.log());
    eprintln!(
        "{} trials, {kills} kills and {early} before the plan was written, {:.0} s",
        size.trials,
        begun.elapsed().as_secs_f64()
    );
    assert_complete(&soak, size, kills, &done);
    assert_no_leftovers(&soak, kind);
}

/// Checks that each trial has one outcome and one verdict, and that the log of the model matches
/// the record.
fn assert_complete(
    soak: &Soak,
    size: &SoakSize,
    kills: usize,
    ended_journals: &BTreeMap<PathBuf, Vec<u8>>,
) {
    let now = soak.ended_journals();
    for (path, bytes) in ended_journals {
        assert_eq!(now.get(path), Some(bytes), "{} was changed", path.display());
    }
    let report = soak.stage.report(&soak.out);
    let asks = find_arm(&report, "asks");
    assert_eq!(asks["graded"], size.trials, "{asks:#}");
    assert_eq!((&asks["complete"], &asks["infrastructure_faults"]), (&true.into(), &0.into()));
    assert_eq!(asks["outcomes"]["submitted"], size.trials, "{asks:#}");
    for file in ["outcome.json", "verdict.json"] {
        let there = find_files(&soak.out.join("trials"), file);
        let counted = there.iter().filter(|path| !is_discarded(path)).count();
        assert_eq!(counted, size.trials, "{file}");
    }

    let journals = find_files(&soak.out.join("trials"), "trajectory.jsonl");
    let (mut recorded, mut names) = (0, BTreeMap::new());
    for journal in &journals {
        let answers = events(journal, "model_answered").len();
        recorded += answers;
        let ended = events(journal, "trial_ended").len();
        assert_eq!(ended, usize::from(!is_discarded(journal)), "{}", journal.display());
        if !is_discarded(journal) {
            assert_eq!(answers, RESPONSES_PER_TRIAL, "{}", journal.display());
        }
        // If a step was interrupted, it runs again and prints another name. The conversation
        // contains the last one.
        let first = |one: &&Value| one["step"] == 1;
        if let Some(said) = events(journal, "tool_returned").iter().rfind(first) {
            let taken = names.insert(attempt_name(&said["shown"]), answers);
            assert!(
                taken.is_none(),
                "two journals contain the same attempt: {}",
                journal.display()
            );
        }
        let steps: Vec<u64> = events(journal, "model_answered")
            .iter()
            .map(|one| one["step"].as_u64().unwrap())
            .collect();
        assert_eq!(steps, (1..=answers as u64).collect::<Vec<_>>(), "each response is paid once");
    }
    let (first, asked) = soak.responses_by_attempt();
    for (name, turns) in &asked {
        // Only requests that were in flight at a kill are repeated. The check of the total below
        // limits their number, based on the number of kills.
        let once: BTreeSet<_> = turns.iter().collect();
        let recorded = names.get(name).copied().unwrap_or_default();
        // The first request does not contain a name yet.
        assert!(once.len() < recorded + 1, "{name}: {turns:?} requested, {recorded} recorded");
        assert!(turns.len() - once.len() <= kills, "{name}: {turns:?}");
    }
    let sent = first + asked.values().map(Vec::len).sum::<usize>();
    let discarded = journals.iter().filter(|path| is_discarded(path)).count();
    eprintln!(
        "{sent} requests, {recorded} answers recorded, {} in flight at a kill; {discarded} discarded tries",
        sent - recorded
    );
    assert!(sent - recorded <= kills * JOBS, "more requests than the kills can explain");
    assert!(discarded <= kills * JOBS);
    let paid = (asks["paid"]["input"].as_u64(), asks["paid"]["output"].as_u64());
    eprintln!(
        "tokens paid for, according to the report: {} input, {} output",
        paid.0.unwrap(),
        paid.1.unwrap()
    );
}

fn is_discarded(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tries")
}

fn assert_no_leftovers(soak: &Soak, kind: &str) {
    // After a sandbox was killed, the kernel ends its processes within moments.
    let begun = Instant::now();
    while soak.count_sleepers() > 0 && begun.elapsed() < Duration::from_secs(3) {
        sleep(Duration::from_millis(100));
    }
    assert_eq!(soak.count_sleepers(), 0, "processes");
    let home = soak.stage.dir.path().to_str().unwrap();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(home), "mounts: {mounts}");
    let ours = |name: &str| {
        let of = |pid: &u32| name.starts_with(&format!("proctor.{pid}-"));
        soak.pids.iter().any(of)
    };
    let groups = find_matching(Path::new("/sys/fs/cgroup"), &ours);
    assert!(groups.is_empty(), "cgroups: {groups:?}");
    let unfinished = |name: &str| name.starts_with(".tmp") || name.starts_with(".building-");
    for folder in [&soak.cache, &soak.out, &soak.temporary_folder] {
        let left = find_matching(folder, &unfinished);
        assert!(left.is_empty(), "temporary files: {left:?}");
    }
    let left = find_matching(&soak.temporary_folder, &|_| true);
    assert!(left.is_empty(), "temporary files: {left:?}");
    for back_end in ["native", "docker"] {
        let left = find_matching(&soak.cache.join(back_end).join("runtimes"), &|_| true);
        assert!(left.is_empty(), "entries of runtimes: {left:?}");
    }
    if kind == "docker" {
        let list = ["ps", "-a", "--format", "{{.Label \"proctor.lock\"}}"];
        let listed = Command::new("docker").args(list).output().unwrap();
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        assert!(!listed.contains(home), "containers: {listed}");
    }
}

#[test]
fn run_is_complete_after_many_kills() {
    let kind = std::env::var("PROCTOR_SOAK_KIND").unwrap_or_else(|_| "native".into());
    if kind == "docker" && !has_docker("run_is_complete_after_many_kills") {
        return;
    }
    run_soak(Stage::new(), &kind, &SoakSize::from_env((20, 4)));
}

/// In the full tier, runs 60 trials with 8 kills.
#[test]
fn run_without_root_is_complete_after_many_kills() {
    let test = "run_without_root_is_complete_after_many_kills";
    let Some(user) = users::require_root(test).and_then(|()| users::user_with_id_range(test))
    else {
        return;
    };
    let (trials, kills) = if is_full() { (60, 8) } else { (6, 2) };
    run_soak(Stage::for_user(user), "native", &SoakSize { trials, kills });
}
