"""Run a project's tests and report the results. The collector writes this file into a sandbox.

Reads an order, which is one line of JSON, from standard input. Writes records, one line of JSON each, to the results
pipe (descriptor 3). Each test file runs in its own process, which is forked from this one. Before that, this process
imports pytest and the third-party modules that the tests use, but none of the project's modules. Project code that
runs only once per process, such as cached functions, is therefore traced for every file. Runs on Python 3.8 and later.

    collect  report the tests in each file, and missing modules
    run      report the outcome of each test; run them in random order if the order has a seed
    trace    like `run`, and report the calls between the project's functions
"""

import fcntl
import importlib
import importlib.util
import json
import os
import random
import select
import signal
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def channel():
    """Return a function that writes a record to the results pipe.

    The pipe is moved to a high descriptor, so that code that writes to descriptor 3 does not reach it. The descriptor
    is close-on-exec, so that programs started by tests do not inherit it.
    """
    pipe = fcntl.fcntl(3, fcntl.F_DUPFD_CLOEXEC, 64)
    os.close(3)

    def emit(record):
        data = json.dumps(record).encode("ascii") + b"\n"
        while data:
            data = data[os.write(pipe, data):]

    emit.raw = lambda data: os.write(pipe, data)
    return emit


class Slow(Exception):
    """A test exceeded its time limit."""


class Plugin:
    """Pytest plug-in that selects and orders the tests and reports their outcomes."""

    def __init__(self, order, emit, tracer):
        self.order, self.emit, self.tracer = order, emit, tracer
        self.outcomes, self.reasons, self.started = {}, {}, None
        # Whether a collected test or a collection error was reported.
        self.told = False

    def pytest_collectreport(self, report):
        if report.failed:
            self.told = True
            why = str(report.longrepr)
            self.emit({"t": "error", "id": report.nodeid, "why": why[-2000:], "missing": missing(why)})

    def pytest_collection_modifyitems(self, session, config, items):
        skip = set(self.order.get("deselect", ()))
        items[:] = [item for item in items if item.nodeid not in skip]
        seed = self.order.get("seed")
        if seed is not None:
            random.Random(seed).shuffle(items)

    def pytest_collection_finish(self, session):
        if self.order["mode"] != "collect":
            return
        files = {}
        for item in session.items:
            files.setdefault(item.nodeid.split("::", 1)[0], []).append(item.nodeid)
        for file, ids in files.items():
            self.told = True
            self.emit({"t": "items", "file": file, "ids": ids})

    def pytest_runtest_logstart(self, nodeid, location):
        self.outcomes[nodeid] = "passed"
        self.started = time.monotonic()
        self.emit({"t": "start", "id": nodeid})
        signal.setitimer(signal.ITIMER_REAL, self.order["test_seconds"], 1.0)
        if self.tracer is not None:
            self.tracer.begin(nodeid)

    def pytest_runtest_logreport(self, report):
        worse = "passed"
        if report.failed:
            worse = "failed" if report.when == "call" else "error"
        elif report.skipped:
            worse = "xfailed" if hasattr(report, "wasxfail") else "skipped"
        elif hasattr(report, "wasxfail"):
            worse = "xpassed"
        if worse != "passed" and self.outcomes.get(report.nodeid) in ("passed", None):
            self.outcomes[report.nodeid] = worse
            self.reasons[report.nodeid] = reason(report)

    def pytest_runtest_logfinish(self, nodeid, location):
        signal.setitimer(signal.ITIMER_REAL, 0)
        if self.tracer is not None:
            self.tracer.end()
        seconds = round(time.monotonic() - self.started, 3)
        self.emit({"t": "test", "id": nodeid, "outcome": self.outcomes[nodeid], "seconds": seconds,
                   "why": self.reasons.get(nodeid, "")})


def reason(report):
    """Return why a test did not pass, on one line: the error, the missing fixture or the reason for skipping."""
    try:
        told = report.longrepr
        if hasattr(report, "wasxfail"):
            text = report.wasxfail
        elif isinstance(told, tuple):
            text = str(told[2])
            text = text[len("Skipped: "):] if text.startswith("Skipped: ") else text
        elif getattr(told, "reprcrash", None) is not None:
            text = told.reprcrash.message
        else:
            text = getattr(told, "errorstring", None) or str(told)
        return next((line.strip() for line in str(text).splitlines() if line.strip()), "")[:1000]
    except Exception:
        return ""  # Formatting one of the project's exceptions may fail.


def missing(why):
    """Return the name of the module that an import did not find."""
    for line in reversed(why.splitlines()):
        _, mark, name = line.partition("No module named ")
        if mark:
            return name.strip().strip("'\"").split("'")[0]
    return None


def after(mark, text):
    """Return the rest of the line after a marker."""
    return text.partition(mark)[2].partition("\n")[0].strip()


def not_started(text):
    """Return the error record of a pytest run that failed before the first test.

    Only the output shows what is missing: a module that `conftest.py` imports, a plug-in, or the plug-in for an option.
    """
    options = [word.split("=")[0] for word in after("unrecognized arguments: ", text).split()]
    options = [word for word in options if word.startswith("-")]
    options += after("Unknown config option: ", text).split()
    wanted = after("Missing required plugins: ", text).split(",")
    return {
        "t": "error",
        "id": "",
        "why": text[-2000:],
        "missing": missing(text),
        "options": options,
        "packages": [name.strip() for name in wanted if name.strip()],
    }


class Held:
    """Captures standard output and standard error. `release` prints and returns the captured text."""

    def __init__(self):
        self.flush()
        self.file = tempfile.TemporaryFile()
        self.places = [os.dup(1), os.dup(2)]
        os.dup2(self.file.fileno(), 1)
        os.dup2(self.file.fileno(), 2)

    def flush(self):
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass

    def release(self):
        self.flush()
        for descriptor, place in enumerate(self.places, 1):
            os.dup2(place, descriptor)
            os.close(place)
        self.file.seek(0)
        data = self.file.read()
        self.file.close()
        rest = data
        while rest:
            rest = rest[os.write(1, rest):]
        return data.decode("utf-8", "replace")


def too_slow(signum, frame):
    raise Slow("the test exceeded its time limit")


def run(order, emit, files):
    """Run pytest once in this process. Return its exit status."""
    import pytest

    tracer = None
    if order["mode"] == "trace":
        sys.path.insert(0, HERE)
        from calls import Calls

        sys.path.remove(HERE)
        tracer = Calls(os.getcwd(), emit, files[0] if files else None)
        tracer.follow_children(HERE)
        tracer.install()
    signal.signal(signal.SIGALRM, too_slow)
    arguments = list(order["arguments"])
    for module, more in order["plugin_arguments"].items():
        if importlib.util.find_spec(module) is not None:
            arguments += more
    if order["mode"] == "collect":
        arguments.append("--collect-only")
    sys.argv = ["pytest"] + arguments + files
    plugin = Plugin(order, emit, tracer)
    held, raised = Held() if order["mode"] == "collect" else None, ""
    try:
        code = int(pytest.main(arguments + files, plugins=[plugin]))
    except SystemExit as error:
        code, raised = error.code if isinstance(error.code, int) else 1, str(error)
    except Exception as error:
        if held is None:
            raise
        code, raised = 1, str(error)
    if tracer is not None:
        tracer.finish()
    if held is not None:
        said = held.release() + raised
        # pytest exits with 3 on an internal error, 4 on a usage error and 5 if there are no tests.
        if code in (3, 4) or code not in (0, 5) and not plugin.told:
            emit(not_started(said))
        emit({"t": "loaded", "modules": of_others()})
    return code


def of_others():
    """Return the names of the loaded third-party modules."""
    root = os.path.realpath(os.getcwd()) + os.sep
    out = set()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if "site-packages" in file and not os.path.realpath(file).startswith(root):
            if not name.startswith(("__editable__", "_pytest", "pytest")):
                out.add(name)
    return sorted(out)


def forked(order, emit, files, seconds):
    """Call `run` in a child process. Return the child's exit status, or None if it was killed."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.setpgid(0, 0)
            code = run(order, emit, files)
        except BaseException as error:
            emit({"t": "broken", "file": files[0] if files else "", "why": repr(error)[:500]})
        finally:
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except (OSError, ValueError):
                    pass
            # Skip the interpreter's shutdown, because it would wait forever for running threads.
            os._exit(code)
    deadline, pause = time.monotonic() + seconds, 0.002
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > deadline:
            status = None
            break
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)
    try:
        os.killpg(child, signal.SIGKILL)
    except (OSError, PermissionError):
        pass
    if status is None:
        os.waitpid(child, 0)
    # A killed child may leave an incomplete record. Start a new line after it.
    emit.raw(b"\n")
    return None if status is None else (os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1)


def warm(names):
    """Import the third-party modules that the tests will import."""
    import pkgutil

    import _pytest
    import pytest
    from _pytest.assertion.rewrite import AssertionRewritingHook

    # Silence pytest's warning that it does not rewrite the assertions in plug-ins that are already loaded. Rewriting
    # them is not needed here. In projects that turn warnings into errors, the warning would stop every test file.
    AssertionRewritingHook._warn_already_imported = lambda hook, name: None
    for module in pkgutil.iter_modules(_pytest.__path__):
        try:
            importlib.import_module("_pytest." + module.name)
        except Exception:
            pass
    before = set(sys.modules)
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException:
            pass
    # Unload the project's modules that a third-party package imported, because each test file must import them again.
    root = os.path.realpath(os.getcwd()) + os.sep
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if os.path.realpath(file).startswith(root):
            del sys.modules[name]


def main():
    order = json.loads(sys.stdin.buffer.readline().decode("utf-8"))
    sys.stdin.close()
    os.close(0)
    os.open(os.devnull, os.O_RDONLY)
    emit = channel()
    # Set up `sys.path` in the same way as `python -m pytest`.
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != HERE]
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    warm(order.get("warm", ()))
    files = order.get("files", [])
    if order["mode"] == "collect":
        code = forked(order, emit, files, order["file_seconds"])
        emit({"t": "end", "code": code})
        return
    if order.get("seed") is not None:
        random.Random(order["seed"]).shuffle(files)
    for file in files:
        began = time.monotonic()
        code = forked(order, emit, [file], order["file_seconds"])
        seconds = round(time.monotonic() - began, 3)
        emit({"t": "file", "file": file, "code": code, "seconds": seconds})
    emit({"t": "end", "code": 0})


if __name__ == "__main__":
    main()
