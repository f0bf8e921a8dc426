"""Creates logs by running real test suites with one pytest version.

    logs.py PYTEST_FOLDER LIBRARIES OUT

Each run calls `pytest.main` in a fork of this process, so that pytest is imported only once. For each run, the script
writes the output to OUT/NAME.raw, and the name and exit status to a line of OUT/index-SET.jsonl.
"""
import importlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
SET = pathlib.Path(sys.argv[1])
LIBRARIES = pathlib.Path(sys.argv[2])
OUT = pathlib.Path(sys.argv[3])

OPTIONS = [
    "-rA", "-q", "-v", "-q -rA", "-vv -rA", "-rA --tb=no --no-header -p no:cacheprovider",
    "-rA --color=yes", "-v --color=yes", "-v -s", "-rA -s", "-x -rA", "-rfE", "-rs -q",
    "-rA -vv -o console_output_style=classic --tb=no", "-v -o console_output_style=count",
    "-p no:terminal", "-rA --doctest-modules", "-rA -p no:cacheprovider --color=no",
]
XDIST = ["-n2 -rA", "-n2 -v", "-n2 -v -rA --color=yes"]
AT_ONCE = os.cpu_count() or 1
SUITES = sorted(path.name for path in (HERE / "suites").iterdir())
LIBRARY_FILES = {
    "boltons-25.0.0": ["tests/test_strutils.py", "tests/test_urlutils.py", "tests/test_setutils.py"],
    "tomlkit-0.13.2": ["tests/test_items.py", "tests/test_toml_document.py"],
}


def runs():
    """Yields the name, folder, arguments and environment of each run."""
    newest = SET.name == "pytest8"
    for suite in SUITES:
        folder = HERE / "suites" / suite
        if suite == "unittests":
            continue
        for number, options in enumerate(OPTIONS):
            # With the other two pytest versions, run only a third of the options, because only the
            # output formats differ.
            if newest or number % 3 == (0 if SET.name == "pytest9" else 1):
                yield f"{suite}-{number}", folder, options.split(), {}
        if newest and suite == "crash":
            yield "crash-1", folder, ["-rA"], {"CRASH": "1"}
        if newest and suite in ("plain", "params", "skips"):
            for number, options in enumerate(XDIST):
                yield f"{suite}-xdist{number}", folder, options.split(), {}
    if newest:
        for library, files in LIBRARY_FILES.items():
            for file in files:
                for number, options in enumerate(["-rA", "-v", "-q -rA --tb=no", "-v -rA --color=yes"]):
                    name = f"{library}-{pathlib.Path(file).stem}-{number}"
                    yield name, LIBRARIES / library, [*options.split(), file], {}


def start(name, folder, arguments, environment):
    """Starts pytest in a fork of this process. Returns the name of the log and the process id."""
    log = OUT / f"{SET.name}-{name}.raw"
    child = os.fork()
    if child == 0:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.chdir(folder)
        os.environ.update(environment)
        sys.path.insert(0, str(folder))
        sys.argv[:] = ["pytest"]
        status = 70
        try:
            status = int(pytest.main(arguments))
        except SystemExit as end:
            status = end.code or 0
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    return log.name, child


def finish(log, child, index):
    _, status = os.waitpid(child, 0)
    index.write(json.dumps({"log": log, "exit": os.waitstatus_to_exitcode(status)}) + "\n")
    index.flush()


def commands():
    """Yields the names and commands for runners other than pytest."""
    cases = HERE / "suites/unittests/cases.py"
    for number, options in enumerate(["-v", "", "-v -f", "-v -b", "-v --locals"]):
        yield f"unittest-{number}", [sys.executable, str(cases), *options.split()]
    for number in range(3):
        yield f"sympy-{number}", [sys.executable, str(HERE / "sympy_like.py"), str(number)]


sys.path.insert(0, str(SET))
os.environ.update(PYTHONDONTWRITEBYTECODE="1", COLUMNS="120", PYTHONPATH=str(SET), PYTHONHASHSEED="0")
sys.dont_write_bytecode = True
import pytest  # noqa: E402
from _pytest.config import default_plugins  # noqa: E402

# Import pytest once for all forks. Plug-ins from other packages are imported by each fork, because
# pytest rewrites them during import.
for plugin in default_plugins:
    importlib.import_module(f"_pytest.{plugin}")

with tempfile.TemporaryDirectory() as folder:
    # Use a copy, because runs write caches and the original folder may be read-only.
    shutil.copytree(HERE / "suites", pathlib.Path(folder) / "suites")
    with open(OUT / f"index-{SET.name}.jsonl", "w") as index:
        running = []
        for name, where, arguments, environment in runs():
            if where.is_relative_to(HERE):
                where = pathlib.Path(folder) / where.relative_to(HERE)
            running.append(start(name, where, arguments, environment))
            if len(running) == AT_ONCE:
                finish(*running.pop(0), index)
        for log, child in running:
            finish(log, child, index)
        if SET.name == "pytest8":
            for name, command in commands():
                done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                (OUT / f"{name}.raw").write_bytes(done.stdout)
                index.write(json.dumps({"log": f"{name}.raw", "exit": done.returncode}) + "\n")
