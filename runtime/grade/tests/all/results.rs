//! Attacks on the results: the pipe, the end record and the exit status.

use proctor_types::TestStatus;

use crate::{
    bench::{F2P, P2P, grade_with_all_defenses, grade_without, package_with_cheat, patch},
    pack::attack_script,
};

fn patch_with_cheat(code: &str) -> String {
    patch(&[("roman/__init__.py", Some(&package_with_cheat(code)))])
}

#[test]
fn printed_results_are_ignored() {
    let mut lines = String::from("import sys\n");
    for id in F2P {
        lines.push_str(&format!("print('PASSED {id}'); print('{id} PASSED', file=sys.stderr)\n"));
    }
    lines.push_str("print('======= 5 passed in 0.01s =======')\n");
    let seen = grade_with_all_defenses(&patch_with_cheat(&lines));
    assert!(!seen.is_resolved());
    assert_eq!(seen.0.verdict.passed_rate, 0.0, "{}", seen.details());
    // The output is kept for humans; no results are read from it.
    assert!(String::from_utf8_lossy(&seen.0.log).contains("5 passed in 0.01s"));
}

#[test]
fn early_exit_is_detected() {
    let edit = patch_with_cheat(attack_script("early-exit.py"));
    let seen = grade_with_all_defenses(&edit);
    assert!(
        !seen.is_resolved() && seen.is_suspect() && seen.has_evidence("exit_without_end"),
        "{}",
        seen.details()
    );
    assert!(!grade_without(&edit, &["require_end"]).has_evidence("exit_without_end"));
}

/// Returns code that forges every record the recorder would send, writes all of them to every open
/// file descriptor, and exits.
pub fn forgery_code() -> String {
    let ids: Vec<&str> = F2P.into_iter().chain(P2P).collect();
    attack_script("forged-records.py").replace("{{ tests }}", &format!("{ids:?}"))
}

#[test]
fn forged_records_are_detected() {
    let edit = patch_with_cheat(&forgery_code());
    let seen = grade_with_all_defenses(&edit);
    assert!(!seen.is_resolved() && seen.is_suspect(), "{}", seen.details());
    assert!(seen.has_evidence("results_pipe_garbage"), "{}", seen.details());
    assert_eq!(seen.status(F2P[0]), TestStatus::Missing);
    let open = grade_without(&edit, &["authenticate", "canaries", "fingerprints"]);
    assert!(open.is_resolved(), "{}", open.details());
}

#[test]
fn descriptor_three_is_closed_to_the_tests_and_their_children() {
    let edit = patch_with_cheat(
        "import os, subprocess
def link(fd):
    try: return os.readlink(f'/proc/self/fd/{fd}')
    except OSError: return ''
links = {fd: link(fd) for fd in range(512)}
output = {links[0], links[1], links[2]}
results = {fd: to for fd, to in links.items() if to.startswith('pipe:') and to not in output}
print('pipes', len(results))
print('three', 3 in results)
listed = subprocess.run(
    ['ls', '-l', '/proc/self/fd'], stdout=subprocess.PIPE, text=True, close_fds=False
).stdout
print('children', any(to in listed for to in results.values()), flush=True)
if os.fork() == 0:
    print('forks', any(link(fd) == to for fd, to in results.items()), flush=True)
    os._exit(0)
os.wait()",
    );
    let log = String::from_utf8_lossy(&grade_with_all_defenses(&edit).0.log).into_owned();
    // One pipe is for the results, the other for the canaries. Code that reads the canary pipe
    // breaks the canaries.
    for line in ["pipes 2", "three False", "children False", "forks False"] {
        assert!(log.contains(line), "{log}");
    }
}

#[test]
fn daemon_is_killed_and_reported() {
    let edit = patch_with_cheat(
        "import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)",
    );
    let start = std::time::Instant::now();
    let seen = grade_with_all_defenses(&edit);
    assert!(!seen.is_resolved());
    assert!(seen.has_evidence("left_behind"), "{}", seen.details());
    // A daemon that keeps standard output open does not delay grading.
    assert!(start.elapsed().as_secs() < 60);
}
