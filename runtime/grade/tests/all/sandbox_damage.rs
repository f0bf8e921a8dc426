//! Tests code that damages its interpreter, other processes or the grader's resources. No attempt
//! solves the task, so each must get a verdict. Otherwise the attempt would avoid a score of zero.

use proctor_native::Native;

use crate::{
    bench::diff,
    exhaustion::{ExhaustionCase, cache_dir, connect_docker, find_failed_cases},
    sample::sample,
};

/// Damage to the interpreter and its streams.
const INTERPRETER_DAMAGE: [(&str, &str); 18] = [
    ("an early exit", "os._exit(0)"),
    (
        "a killed parent process",
        "os.kill(os.getppid(), 9)\nos.kill(-1, 9)\nos.kill(os.getpid(), 9)",
    ),
    ("a crash", "import ctypes\nctypes.string_at(0)"),
    ("closed descriptors", "os.closerange(0, 1024)"),
    ("endless output", "while True: os.write(1, b'x' * (1 << 20))"),
    (
        "endless results",
        "while True:\n    for fd in range(3, 24): try_all(lambda: os.write(fd, b'{}\\n' * 20000))",
    ),
    (
        "a gigabyte of results in one line",
        "for fd in range(3, 24): try_all(lambda: [os.write(fd, b'[' * (1 << 20)) for n in range(1024)])",
    ),
    (
        // This attempt uses the recorder's own objects, so the records are authentic.
        "millions of results",
        "import gc\nfrom _pytest.config import Config\nfrom _pytest.reports import TestReport\n\
         hook = next(o for o in gc.get_objects() if isinstance(o, Config)).hook\n\
         while True:\n\x20   hook.pytest_runtest_logreport(report=TestReport(\n\
         \x20       'tests/test_roman.py::test_four', ('tests/test_roman.py', 1, 'x' * 999), {}, 'passed', None, 'call'))",
    ),
    ("deep recursion", "sys.setrecursionlimit(1 << 30)\ndef f(): return f()\nf()"),
    ("a deep literal", "eval('[' * 5000000)"),
    ("a hang", "while True: pass"),
    (
        "a hang that ignores all signals",
        "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True:\n    try: time.sleep(999)\n\
         \x20   except BaseException: pass",
    ),
    (
        "a hang at the end",
        "import atexit, threading\natexit.register(time.sleep, 999)\n\
         threading.Thread(target=time.sleep, args=(999,)).start()",
    ),
    (
        "an alarm in the recorder",
        "def fire(*a): raise SystemExit(0)\nsignal.signal(signal.SIGALRM, fire)\n\
         signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)",
    ),
    ("no builtins", "import builtins\nbuiltins.__dict__.clear()"),
    ("no modules", "sys.modules.clear()\nsys.path[:] = []\nsys.meta_path.clear()"),
    ("no streams", "sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = None"),
    (
        "no limits left",
        "import resource\nfor p in [0, os.getppid(), 1]:\n    for n in range(16): \
         try_all(lambda: resource.prlimit(p, n, (0, 0)))",
    ),
];

/// Damage that remains after the interpreter has ended.
const LASTING_DAMAGE: [(&str, &str); 20] = [
    (
        "a swarm that renews itself",
        "for n in range(8):\n    if os.fork() == 0:\n        os.setsid()\n        while True:\n\
         \x20           try:\n                if os.fork(): os._exit(0)\n            except OSError: pass",
    ),
    (
        "a busy swarm",
        "for n in range(100):\n    if os.fork() == 0:\n        os.setsid()\n        while True: pass",
    ),
    (
        "memory of many processes",
        "for n in range(40):\n    if os.fork() == 0:\n        x = []\n\
         \x20       while True: x.append(bytearray(os.urandom(1 << 20)))\ntime.sleep(600)",
    ),
    (
        "shared memory",
        "import ctypes\nc = ctypes.CDLL(None)\nc.shmat.restype = ctypes.c_void_p\nfor n in range(99):\n\
         \x20   at = c.shmat(c.shmget(0, 1 << 23, 0o1600), None, 0)\n\
         \x20   if at and at != 2 ** 64 - 1: ctypes.memset(at, 1, 1 << 23)\nfill('/dev/shm', 1 << 20)",
    ),
    (
        "socket buffers",
        "import socket\nheld = []\nwhile True:\n    try: a, b = socket.socketpair()\n    except OSError: break\n\
         \x20   a.setblocking(False); held += [a, b]\n    try_all(lambda: [a.send(b'x' * 65536) for n in range(99)])",
    ),
    (
        "threads",
        "import threading\nwhile True: threading.Thread(target=time.sleep, args=(99,)).start()",
    ),
    (
        "files that grow back",
        "if os.fork() == 0:\n    os.setsid(); n = 0\n    while True:\n        n += 1\n\
         \x20       try_all(lambda: (os.makedirs('tests/d'), open(f'tests/d/{n}', 'w').close()))\n\
         \x20       try_all(lambda: os.rename('tests/d', f'tests/d{n}'))",
    ),
    ("no interpreter", "shutil.rmtree('/venv')"),
    (
        "no programs",
        "for d in ['/usr', '/bin', '/lib', '/lib64', '/etc', '/venv', '/tmp', '/dev']: shutil.rmtree(d, True)",
    ),
    (
        "a root directory without permissions",
        "for d in ['/testbed', '/tmp', '/venv', '/etc', '/']: try_all(lambda: os.chmod(d, 0))",
    ),
    (
        "no folder for temporary files",
        "shutil.rmtree('/tmp', True)\ntry_all(lambda: os.rename('/tmp', '/gone'))\nos.symlink('/nowhere', '/tmp')",
    ),
    (
        "a work directory moved away",
        "os.rename('/testbed', '/elsewhere')\nos.symlink('/testbed', '/testbed')",
    ),
    ("a work directory that is a file", "shutil.rmtree('/testbed')\nopen('/testbed', 'w').close()"),
    ("a link from the tests to /proc", "shutil.rmtree('tests')\nos.symlink('/proc', 'tests')"),
    (
        "a link from the tests to the root directory",
        "shutil.rmtree('tests')\nos.symlink('/', 'tests')",
    ),
    (
        "odd times",
        "for n, f in enumerate(glob('tests/*.py')): os.utime(f, ns=((-1) ** n << 61, (-1) ** n << 61))",
    ),
    (
        "odd owners and modes",
        "for f in glob('tests/*.py'):\n    for o in [1, 65534, 2 ** 31, 2 ** 32 - 2]: try_all(lambda: os.chown(f, o, o))\n\
         \x20   try_all(lambda: os.chmod(f, 0o7777))",
    ),
    (
        "leases",
        "import fcntl\nif os.fork() == 0:\n    os.setsid()\n    held = [open(f) for f in glob('tests/*.py')]\n\
         \x20   for f in held: try_all(lambda: fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_RDLCK))\n    time.sleep(600)",
    ),
    (
        "a killed first process",
        "import ctypes\nc = ctypes.CDLL(None)\nfor n in range(1, 65): try_all(lambda: os.kill(1, n))\n\
         c.reboot(0x1234567); c.ptrace(16, 1, 0, 0); c.syscall(438, c.syscall(434, 1, 0), 0, 0)",
    ),
    (
        "many thousands of files in the tests",
        "os.chdir('tests')\nfor n in range(400):\n    try_all(lambda: os.mkdir(f'{n}'))\n\
         \x20   try_all(lambda: [open(f'{n}/{m}', 'w').close() for m in range(400)])",
    ),
];

/// Intervals between the cases that the core tier runs. All cases take nine minutes on Docker and
/// three on the native back end.
const CORE_INTERVAL_DOCKER: usize = 5;
const CORE_INTERVAL_NATIVE: usize = 2;

/// Returns patches whose own content does the damage.
fn patches() -> Vec<(&'static str, String)> {
    let component = format!("{}/", "n".repeat(255));
    let text = Some("x = 1\n");
    let link = |path: &str, target: &str| {
        let side = format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{target}\n");
        format!(
            "diff --git a/{path} b/{path}\nnew file mode 120000\n{side}\\ No newline at end of file\n"
        )
    };
    vec![
        ("long components", diff(&format!("tests/{}a.py", component.repeat(3)), None, text)),
        (
            "a path longer than the limit",
            diff(&format!("tests/{}a.py", component.repeat(20)), None, text),
        ),
        (
            "a hundred thousand files",
            (0..100_000).map(|n| diff(&format!("e{n}"), None, text)).collect(),
        ),
        ("a link to itself", link("tests/helper2.py", "helper2.py")),
        ("a link to memory", link("tests/more/helper.py", "/proc/self/mem")),
        ("a link to the root directory", link("tests/all", "/")),
    ]
}

fn damage_cases() -> Vec<ExhaustionCase> {
    let code = INTERPRETER_DAMAGE
        .iter()
        .chain(&LASTING_DAMAGE)
        .map(|(name, line)| ExhaustionCase::with_import_code(name, line));
    code.chain(patches().into_iter().map(|(name, patch)| ExhaustionCase::with_patch(name, patch)))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn patch_that_damages_its_native_sandbox_gets_a_verdict() {
    let native = Native::new(cache_dir()).unwrap();
    let escaped = find_failed_cases(&native, &sample(damage_cases(), CORE_INTERVAL_NATIVE)).await;
    assert!(escaped.is_empty(), "{}", escaped.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn patch_that_damages_its_container_gets_a_verdict() {
    let Some(docker) = connect_docker().await else { return };
    let escaped = find_failed_cases(&docker, &sample(damage_cases(), CORE_INTERVAL_DOCKER)).await;
    assert!(escaped.is_empty(), "{}", escaped.join("\n"));
}
