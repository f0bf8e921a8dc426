"""What all observers of a run share."""

from .engine import Engine
from .frames import Frames
from .paths import Paths
from .reports import Reports
from .sources import Sources


class TestRun:
    """The state of a run that several observers read or change."""

    def __init__(self):
        self.session = self.canaries = None
        # The globals of the module that replaces tests' code with canaries' code.
        self.canary_globals = None
        # For each test file, the hashes of the text that was compiled, and the code objects that resulted.
        self.compiled, self.genuine = {}, {}
        # The running test: its code object, its file and name, and whether its function was called.
        self.running_code, self.current, self.is_in_call = None, None, False
        # Whether the running test's assertions failed, and whether its function raised an exception.
        self.has_failed_assertion = self.has_raised = False


class Context:
    """The parts that each observer uses."""

    def __init__(self, root, order, folder, own):
        self.checks = frozenset(order["sees"])
        self.paths = Paths(root, order, folder)
        self.reports = Reports(self.checks)
        self.sources = Sources(self.paths)
        self.run = TestRun()
        self.engine = Engine(self.checks, self.sources, own)
        self.frames = Frames(self.paths, self.reports, self.engine, own)


class Observer:
    """Observes one kind of behavior and reports it."""

    def __init__(self, context):
        self._checks, self._paths, self._reports = context.checks, context.paths, context.reports
        self._sources, self._run = context.sources, context.run
        self._engine, self._frames = context.engine, context.frames
