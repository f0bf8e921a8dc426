"""Runs a project's tests and says what they did. The collector writes this file into a sandbox.

An order, one line of JSON, comes over standard input; records, a line of JSON each, go to the results
pipe (descriptor 3). Each test file runs in a process of its own, forked from this one, which has loaded
pytest and what the tests load of other people's packages, and nothing of the project: code that is run
once and remembered is seen by every file that needs it. Runs on Python 3.8 and later.

    collect  which files hold which tests, and which modules are missing
    run      the outcome of each test; in random order where the order has a seed
    trace    `run`, with the calls between the project's functions
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
    """High, so that code that guesses 3 finds nothing; close-on-exec, so that no program inherits it."""
    pipe = fcntl.fcntl(3, fcntl.F_DUPFD_CLOEXEC, 64)
    os.close(3)

    def emit(record):
        data = json.dumps(record).encode("ascii") + b"\n"
        while data:
            data = data[os.write(pipe, data):]

    emit.raw = lambda data: os.write(pipe, data)
    return emit


class Slow(Exception):
    """A test ran past its limit."""


class Plugin:
    """What pytest is asked and what it tells."""

    def __init__(self, order, emit, tracer):
        self.order, self.emit, self.tracer = order, emit, tracer
        self.outcomes, self.reasons, self.started = {}, {}, None
        # Something was told of what was collected.
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
    """Why a test did not pass, in one line: the error, the fixture that is not there, the reason of a skip."""
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
        return ""  # What the project raises may not even be printed.


def missing(why):
    """The module that an import did not find."""
    for line in reversed(why.splitlines()):
        _, mark, name = line.partition("No module named ")
        if mark:
            return name.strip().strip("'\"").split("'")[0]
    return None


def after(mark, text):
    """The rest of the line that a mark stands in."""
    return text.partition(mark)[2].partition("\n")[0].strip()


def not_started(text):
    """The record of a pytest that came to no test: nothing but its words tells what it misses. A `conftest.py` that
    cannot be imported, a plug-in that is not there, an option of one."""
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
    """What is printed, by whatever way, from the making of this on: printed when it is released, which returns it."""

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
    raise Slow("the test ran past its limit")


def run(order, emit, files):
    """One start of pytest, in this process. Returns its exit status."""
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
        # 3 and 4: an error of pytest's own, and one of its configuration. 5: there are no tests.
        if code in (3, 4) or code not in (0, 5) and not plugin.told:
            emit(not_started(said))
        emit({"t": "loaded", "modules": of_others()})
    return code


def of_others():
    """The modules of other people's packages that are loaded by now."""
    root = os.path.realpath(os.getcwd()) + os.sep
    out = set()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if "site-packages" in file and not os.path.realpath(file).startswith(root):
            if not name.startswith(("__editable__", "_pytest", "pytest")):
                out.add(name)
    return sorted(out)


def forked(order, emit, files, seconds):
    """`run` in a child. Returns its status, or None where it had to be killed."""
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
            # No interpreter shutdown: threads that do not end would keep it for ever.
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
    # A record that a killed child left half written ends here.
    emit.raw(b"\n")
    return None if status is None else (os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1)


def warm(names):
    """Loads what the tests will load of other people's packages."""
    import pkgutil

    import _pytest
    import pytest
    from _pytest.assertion.rewrite import AssertionRewritingHook

    # pytest warns that a plug-in that is loaded already will not have its assertions rewritten. They need not be; but
    # where a project makes errors of warnings, each of its files would end there.
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
    # A package of others may use the project: each file loads that anew.
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
    # As `python -m pytest` has it.
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
