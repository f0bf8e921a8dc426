"""A pytest plugin that streams each test's phases to the results pipe. Runs on Python 3.6 and later.

A line is `MAC JSON`, where MAC is the HMAC-SHA256 of the previous MAC and the JSON. The grader detects lines that were
added, changed, dropped or moved without the key.

The plugin has no attributes, and its methods only ask questions (see `asking.py`). So code that finds the plugin
cannot reach the canaries or the channel through the plugin.
"""

import hashlib
import json
import os
import sys

import pytest


def channel(pipe, key):
    """Returns a function that writes one record, and a function that tells whether the pipe is still the same. Both
    have their own references to everything that they call. They call no library function that looks up names in its
    module, such as `hmac.new` and `json.dumps`, because graded code can replace these names."""
    last, owner = [b""], os.getpid()
    digest, write, pid, encoded = hashlib.sha256, os.write, os.getpid, encoder()
    status_of, is_same = os.fstat, [True]

    def identity():
        status = status_of(pipe)
        return status.st_dev, status.st_ino

    first = identity()
    # HMAC (RFC 2104). The key is shorter than a block.
    block = key.ljust(64, b"\0")
    within, around = (bytes(byte ^ pad for byte in block) for pad in (0x36, 0x5C))

    def emit(record):
        if pid() != owner:
            return  # Only the test process may write records, not a forked child.
        body = encoded(record).encode("ascii")
        mac = digest(around + digest(within + last[0] + body).digest()).hexdigest()
        last[0] = mac.encode("ascii")
        line = last[0] + b" " + body + b"\n"
        # Other code may have replaced the pipe behind this descriptor, even for a short time.
        if identity() != first:
            is_same[0] = False
        while line:
            line = line[write(pipe, line) :]

    return emit, lambda: is_same[0]


def encoder():
    """Returns a function that encodes the types used in records as JSON."""
    quoted = json.encoder.encode_basestring_ascii
    plain = {int: int.__repr__, float: float.__repr__, bool: {True: "true", False: "false"}.get}

    def encoded(value):
        kind = type(value)
        if kind is str:
            return quoted(value)
        if kind is dict:
            pairs = [quoted(str(name)) + ":" + encoded(part) for name, part in value.items()]
            return "{" + ",".join(pairs) + "}"
        if kind in (list, tuple):
            return "[" + ",".join([encoded(part) for part in value]) + "]"
        return "null" if value is None else plain[kind](value)

    return encoded


def text(value):
    """Converts a value to text without lone surrogates, which not every JSON parser accepts."""
    return str(value).encode("utf-8", "backslashreplace").decode("utf-8")


def peak_kb():
    """Returns the peak memory of this process or its largest child, in KiB. Linux only."""
    try:
        import resource

        kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        return max(resource.getrusage(kind).ru_maxrss for kind in kinds)
    except (ImportError, OSError, ValueError):
        return None


def plugin(emit, is_same, order, origin, canaries, sight, answer, ask):
    """Returns the plugin, and a function that sends the last record. Both only ask questions (see `asking.py`)."""
    ids = order["ids"]
    wanted = None if ids is None else frozenset(ids)
    watched = [(name, os.path.abspath(name)) for name in order["watch"]]
    looks = order["looks"]
    versions = {"python": text(sys.version.split()[0]), "pytest": text(pytest.__version__)}
    raised, called, runs = {}, {}, {}
    count, held = [0], []

    def send(record):
        """Sends a test's records only after its call, because the setup phase's record shows whether it is a canary."""
        held.append(record)
        if record["when"] not in ("setup", "subtest"):
            release()

    def release():
        while held:
            emit(held.pop(0))

    def keeps(nodeid):
        return wanted is None or nodeid in wanted

    def guarded(where, look, *given):
        """Runs a check. If the check raises an exception, this is recorded and the tests continue."""
        try:
            return look(*given)
        except Exception as error:
            sight.failed(where, error)
            return None

    def on_configure(config):
        guarded("checking the configuration", sight.configured, config)

    def on_register(plugin, manager):
        guarded("recording a plugin", sight.registered, plugin, manager)

    def on_modify_items(config, items):
        dropped = [item for item in items if not keeps(item.nodeid)]
        if dropped:
            items[:] = [item for item in items if keeps(item.nodeid)]
            config.hook.pytest_deselected(items=dropped)
        guarded("recording the test functions", sight.before_canaries, items, canaries)
        canaries.lay(items)

    def on_collect_error(report):
        why = text(report.longrepr)[-2000:]
        emit({"t": "collect", "id": text(report.nodeid), "outcome": "failed", "why": why})

    def on_collected(session, recorder):
        if origin is not None:
            origin.check()
        guarded("checking the collected tests", sight.collected, session, recorder, canaries)
        begin = {
            "t": "begin",
            "collected": [text(item.nodeid) for item in session.items],
            "watched": {name: sight.hash(path) for name, path in watched},
        }
        begin.update(versions)
        emit(begin)

    def on_begin(item):
        guarded("checking who runs a test", sight.check_caller)
        if sight.is_forked():
            sight.ran_in_fork(item)
        canaries.begin(item)

    def on_end(item):
        release()
        canaries.end(item)

    def before_call(item):
        guarded("checking who calls a test", sight.check_caller)
        guarded("checking a test before its call", sight.before_call, item)
        canaries.give(item)
        if canaries.current is None:
            runs[item.nodeid] = runs.get(item.nodeid, 0) + 1

    def after_call(item, outcome):
        canaries.take_back()
        sight.call_ended()
        # Recorded independently of pytest's own report.
        called[item.nodeid] = looks and getattr(outcome, "excinfo", None) is not None

    def before_function():
        guarded("setting the id of the running test", canaries.set_current_test)

    def on_make_report(recorder, item, call):
        guarded("checking who creates a report", sight.check_reporter)
        has_raised = call.excinfo is not None
        if call.when == "call":
            seen = called.pop(item.nodeid, None)
            if looks:
                # If the call was not observed, the report does not describe a real call.
                has_raised = None if seen is None else seen or has_raised
                guarded("checking the hooks after a test", sight.after_phase, recorder)
                guarded("checking opened test files", sight.check_openings)
                guarded("checking a test after its call", sight.after_call, item, has_raised)
        raised[item.nodeid, call.when] = has_raised
        guarded("recording what a test raised", canaries.record_exception, item, call.excinfo)

    def on_report(report):
        guarded("checking who sends a report", sight.check_reporter)
        sub = "SubTest" in type(report).__name__ or "Subtest" in type(report).__name__
        record = {
            "t": "test",
            "id": text(report.nodeid),
            "when": "subtest" if sub else text(report.when),
            "outcome": text(report.outcome),
            "xfail": hasattr(report, "wasxfail"),
            "raised": None if sub else raised.pop((report.nodeid, report.when), None),
            "runs": runs.get(report.nodeid, 0),
            "seconds": round(float(getattr(report, "duration", 0) or 0), 4),
        }
        if canaries.is_current(report.nodeid):
            canaries.report(record, report)
        else:
            count[0] += 1
        send(record)

    def finish(recorder, code):
        if origin is not None:
            origin.check()
        if sight.is_ready():
            guarded("the check at the end of the run", sight.check, recorder)
        release()
        if not is_same():
            sight.failed("another file in place of the results pipe", OSError())
        record = {"t": "end", "code": code, "count": count[0], "peak_kb": peak_kb()}
        record.update(sight.observations())
        emit(record)

    for function in (on_configure, on_register, on_modify_items, on_collect_error, on_collected, on_begin, on_end):
        answer(function.__name__, function)
    for function in (before_call, after_call, before_function, on_make_report, on_report, finish):
        answer(function.__name__, function)
    return asking_plugin(ask)


def asking_plugin(ask):
    class Recorder:
        __slots__ = ()

        def pytest_configure(self, config):
            ask("on_configure", config)

        def pytest_plugin_registered(self, plugin, manager):
            if plugin is not self:
                ask("on_register", plugin, manager)

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_collection_modifyitems(self, config, items):
            yield
            ask("on_modify_items", config, items)

        def pytest_collectreport(self, report):
            if report.failed:
                ask("on_collect_error", report)

        def pytest_collection_finish(self, session):
            ask("on_collected", session, self)

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_protocol(self, item):
            ask("on_begin", item)
            yield
            ask("on_end", item)

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_call(self, item):
            ask("before_call", item)
            outcome = yield
            ask("after_call", item, outcome)

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_pyfunc_call(self):
            ask("before_function")
            yield

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_makereport(self, item, call):
            yield  # Check afterwards, because other plugins (such as unittest's) may replace call.excinfo.
            ask("on_make_report", self, item, call)

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_logreport(self, report):
            ask("on_report", report)

    recorder = Recorder()
    return recorder, lambda code: ask("finish", recorder, code)
