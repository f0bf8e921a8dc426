"""Observes programs that tests start, and test files that are opened without an audit event."""

import os

from .context import Observer
from .reports import shared_memory

# Environment variables that determine which programs, libraries and modules a started program finds.
FINDING = frozenset(
    ("PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "BASH_ENV", "ENV", "NODE_OPTIONS", "PERL5OPT", "RUBYOPT")
    + ("PYTHONPATH", "PYTHONHOME", "PYTHONOPTIMIZE", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX")
    + ("PYTHONINSPECT", "PYTEST_ADDOPTS", "PYTEST_PLUGINS")
)
# Names that indicate that code starts further interpreters, for which there is no audit event.
SHARING = frozenset(("multiprocessing", "ProcessPoolExecutor", "get_context", "Process"))


class Programs(Observer):
    """Programs that a test's own code starts."""

    def __init__(self, context, python_path):
        super().__init__(context)
        # Whether tests started any program, a program that may read tests, or such a program outside a test's call.
        self.started = self.may_read = self.serves = False
        # Variables that code under test changed, with the value and the file of that code.
        self._finding, self._environ = {}, os.environ
        self._initial = dict(os.environ)
        if python_path is not None:
            self._initial["PYTHONPATH"] = python_path

    def check_variable(self, name, value, frame):
        """Records that code under test changed where programs are found. This matters if a test starts a program."""
        try:
            if name not in FINDING:
                return
            if value == self._initial.get(name):
                self._finding.pop(name, None)
                return
            asker = self._frames.asker(frame) if value else None
            if asker is not None:
                self._finding[name] = value, os.path.join(self._paths.root, asker)
        except Exception as error:
            self._reports.failed("checking environment variables", error)

    def record(self, may_read):
        """Handles a program that a test's own code starts, because environment variables that code under test changed
        affect the program."""
        self.started = True
        self.may_read = self.may_read or may_read
        self.serves = self.serves or (may_read and not self._run.is_in_call)
        for name, (value, file) in self._finding.items():
            # A test that sets the variable itself may include the previous value.
            if value in self._environ.get(name, ""):
                self._reports.report("replaced", "the variable %s of a program that a test starts" % name, [file])

    def call_ended(self):
        self.started = self.may_read = False


class OpenedFiles(Observer):
    """Test files that were opened without an audit event, by a program or a native library."""

    def __init__(self, context, openings, programs):
        super().__init__(context)
        self._openings, self._programs = openings, programs
        # The test files that this process opened, and the byte of shared memory for each file.
        self._opened, self._opened_in_forks = set(), {}

    def watch(self, named):
        """Watches test files, which `named` contains by path."""
        for path, name in named.items():
            self._openings.watch(path, name)
        names = sorted(set(named.values()))
        # One byte of shared memory for each file, so that forked processes can record opened files.
        told = shared_memory(len(names)) if names and "openings" in self._checks else None
        if told is not None:
            self._opened_in_forks = {name: (told, at) for at, name in enumerate(names)}

    def check(self):
        """Reports test files that were opened, but not by this process or its forks. A program that a test
        started may open them if it gets the names of tests or runs tests."""
        if "openings" not in self._checks or self._reports.is_forked():
            return
        try:
            found = self._openings.take() - self._opened
        except OSError as error:
            self._reports.failed("watching for opened tests", error)
            found = set()
        self._opened.clear()
        for name in list(found):
            told, at = self._opened_in_forks.get(name, (b"\0", 0))
            if told[at]:
                told[at] = 0
                found.discard(name)
        if found and not (self._programs.may_read or self._programs.serves) and not self._start_interpreters():
            who = "a program that a test started" if self._programs.started else "a program or a library"
            for name in found:
                self._reports.report("readers", name, [who])

    def _start_interpreters(self):
        """Whether the tests' own code contains names that start further interpreters, which then import the tests."""
        codes = [code for codes in self._run.genuine.values() for code in codes]
        return any(not SHARING.isdisjoint(code.co_names) for code in codes)

    def record(self, name):
        """Records a file that this process is about to open."""
        if name is None:
            return
        if self._reports.is_forked():
            told, at = self._opened_in_forks.get(name, (None, 0))
            if told is not None:
                told[at] = 1
            return
        self.check()
        self._opened.add(name)
