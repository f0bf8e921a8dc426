"""A pytest plugin that streams each test's phases to the results pipe. Runs on Python 3.6 and later.

A line is `MAC JSON`, where MAC is the HMAC-SHA256 of the previous MAC and the JSON: a line that was
added, changed, dropped or moved by anything without the key is seen as such by the grader.
"""

import hashlib
import hmac
import json
import os
import sys

import pytest


def channel(pipe, key):
    """A function that writes one record. It keeps its own hold on all that it calls."""
    last, owner = [b""], os.getpid()
    digest, new, dumps, write, pid = hashlib.sha256, hmac.new, json.dumps, os.write, os.getpid

    def emit(record):
        if pid() != owner:
            return  # A forked child is not the test process.
        body = dumps(record, separators=(",", ":")).encode("ascii")
        last[0] = new(key, last[0] + body, digest).hexdigest().encode("ascii")
        line = last[0] + b" " + body + b"\n"
        while line:
            line = line[write(pipe, line) :]

    return emit


def text(value):
    """Text without lone surrogates, which are not JSON to everybody."""
    return str(value).encode("utf-8", "backslashreplace").decode("utf-8")


def peak_kb():
    """The most memory that this process or one of its children had, in KiB. Linux only."""
    try:
        import resource

        kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        return max(resource.getrusage(kind).ru_maxrss for kind in kinds)
    except (ImportError, OSError, ValueError):
        return None


class Recorder:
    def __init__(self, emit, order, origin, canaries, sight):
        self._emit = emit
        self._origin = origin
        self._canaries = canaries
        self._sight = sight
        ids = order["ids"]
        self._wanted = None if ids is None else frozenset(ids)
        self._watched = [(name, os.path.abspath(name)) for name in order["watch"]]
        self._raised = {}
        self._called = {}
        self._runs = {}
        self._looks = order["looks"]
        self._count = 0

    def pytest_configure(self, config):
        self._sight.configured(config)

    def pytest_plugin_registered(self, plugin, manager):
        if plugin is not self:
            self._sight.registered(plugin, manager)

    def _keeps(self, nodeid):
        return self._wanted is None or nodeid in self._wanted

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, config, items):
        yield
        dropped = [item for item in items if not self._keeps(item.nodeid)]
        if dropped:
            items[:] = [item for item in items if self._keeps(item.nodeid)]
            config.hook.pytest_deselected(items=dropped)
        self._sight.before_canaries(items)
        self._canaries.lay(items)

    def pytest_collectreport(self, report):
        if report.failed:
            why = text(report.longrepr)[-2000:]
            self._emit({"t": "collect", "id": text(report.nodeid), "outcome": "failed", "why": why})

    def pytest_collection_finish(self, session):
        if self._origin is not None:
            self._origin.look()
        self._sight.collected(session, self, self._canaries)
        self._emit(
            {
                "t": "begin",
                "collected": [text(item.nodeid) for item in session.items],
                "watched": {name: self._sight.hash(path) for name, path in self._watched},
                "python": text(sys.version.split()[0]),
                "pytest": text(pytest.__version__),
            }
        )

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item):
        self._canaries.begin(item)
        yield
        self._canaries.end(item)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item):
        self._sight.before_call(item)
        self._canaries.give(item)
        if self._canaries.current is None:
            self._runs[item.nodeid] = self._runs.get(item.nodeid, 0) + 1
        outcome = yield
        self._canaries.take_back()
        # Seen without pytest's own account of it.
        self._called[item.nodeid] = self._looks and getattr(outcome, "excinfo", None) is not None

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item, call):
        yield  # Other plugins may replace call.excinfo (unittest does), so look afterwards.
        raised = call.excinfo is not None
        if call.when == "call":
            called = self._called.pop(item.nodeid, None)
            if self._looks:
                # A report of a call that was not seen is the report of no call.
                raised = None if called is None else called or raised
                self._sight.after_phase(self)
                self._sight.after_call(item, raised)
        self._raised[item.nodeid, call.when] = raised
        self._canaries.saw(item, call.excinfo)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report):
        sub = "SubTest" in type(report).__name__ or "Subtest" in type(report).__name__
        record = {
            "t": "test",
            "id": text(report.nodeid),
            "when": "subtest" if sub else text(report.when),
            "outcome": text(report.outcome),
            "xfail": hasattr(report, "wasxfail"),
            "raised": None if sub else self._raised.pop((report.nodeid, report.when), None),
            "runs": self._runs.get(report.nodeid, 0),
            "seconds": round(float(getattr(report, "duration", 0) or 0), 4),
        }
        if self._canaries.is_of(report.nodeid):
            self._canaries.report(record, report)
            return
        self._count += 1
        self._emit(record)

    def end(self, code):
        """The last record; sent by the starter, after pytest has returned."""
        if self._origin is not None:
            self._origin.look()
        if self._sight.is_ready():
            self._sight.look(self)
        end = {"t": "end", "code": code, "count": self._count, "peak_kb": peak_kb()}
        end.update(self._sight.told())
        self._emit(end)
