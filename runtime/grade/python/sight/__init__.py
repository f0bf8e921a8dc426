"""Detects what code under test changes inside the interpreter: functions and classes of pytest, pluggy
and unittest, builtins, hooks, plugins, test functions, modules. This package prevents nothing; the grader evaluates
its observations. It is loaded before any graded code, and everything that it calls is bound by then, so it looks up
nothing in a module of the environment while graded code runs. Runs on Python 3.6 and later.

Each module observes one part of the interpreter. `start.py` loads the package under a random name and removes it from
`sys.modules`, so no import finds it.
"""

import gc
import sys
import types

from .audit import Audit
from .bindings import Bindings
from .context import Context
from .data_files import DataFiles
from .exceptions import SwallowedExceptions
from .hooks import Callers, Hooks
from .introspection import Introspection
from .items import Items
from .locations import Locations
from .modules import Modules, TestClasses
from .programs import OpenedFiles, Programs
from .snapshot import Snapshot
from .source_lines import SourceLines
from .test_files import TestFiles
from .test_modules import TestModules
from .values import text
from .watchers import Watchers


def own_globals():
    """Returns the globals of this package's modules. Frames with these globals are the recorder's own."""
    modules = [value for value in globals().values() if isinstance(value, types.ModuleType)]
    return [globals()] + [vars(one) for one in modules if one.__name__.startswith(__name__ + ".")]


class Sight:
    """All observers of a run. The recorder calls this class's methods."""

    def __init__(self, root, order, folder, early, openings, answer, ask):
        """`folder` contains the recorder's files. `early` contains the names of the modules that were loaded before any
        script."""
        context = Context(root, order, folder, own_globals())
        provided = frozenset(order["provided"])
        self._run, self._reports = context.run, context.reports
        self._programs = Programs(context, order["pythonpath"])
        self._opened_files = OpenedFiles(context, openings, self._programs)
        self._test_files = TestFiles(context)
        self._exceptions = SwallowedExceptions(context)
        self._items = Items(context)

        # The snapshots below contain the functions that these observers install in pytest and the standard library.
        TestModules(context, self._opened_files).install(answer, ask)
        self._exceptions.watch_assertions(answer, ask)
        SourceLines(context, self._test_files, self._opened_files).install(answer, ask)

        self._locations = Locations(context, order["folders"])
        self._bindings = Bindings(context)
        self._hooks = Hooks(context, self._locations)
        self._modules = Modules(context, self._bindings, provided, frozenset(order["helpers"]))
        self._modules.check_early(early, frozenset(order["loaded"]))
        self._test_classes = TestClasses(context)
        context.engine.remember()
        self._snapshot = Snapshot(context, self._bindings, provided)

        if hasattr(sys, "addaudithook") and "readers" in context.checks:
            self._test_files.find(order["folders"], order["data"])
            self._opened_files.watch(self._test_files.named)
            data_files = DataFiles(context, self._test_files)
            introspection = Introspection(context, self._test_files)
            observers = data_files, self._opened_files, self._programs, introspection, self._locations
            Audit(context, self._test_files, *observers).install()
        self._exceptions.watch_exceptions(answer, ask)
        self._watchers = Watchers(context, self._exceptions.monitoring)

        # Methods that only one observer needs.
        self.hash, self.accept_import = context.sources.hash, self._bindings.accept_import
        reports, hooks, callers = self._reports, self._hooks, Callers(context)
        self.failed, self.is_forked, self.ran_in_fork = reports.failed, reports.is_forked, reports.ran_in_fork
        self.configured, self.registered, self.is_ready = hooks.configured, hooks.registered, hooks.is_ready
        self.check_caller, self.check_reporter = callers.check_caller, callers.check_reporter
        self.check_openings = self._opened_files.check

    def before_canaries(self, items, canaries):
        """Records the functions' code before canaries replace it."""
        self._run.canary_globals = type(canaries).lay.__globals__
        self._watchers.check()
        self._items.remember_functions(items)

    def collected(self, session, recorder, canaries):
        """Records the collected tests."""
        self._run.session, self._run.canaries = session, canaries
        self._locations.check_start()
        self.check(recorder)
        self._hooks.remember_decisive()
        self._items.remember(session.items)

    def before_call(self, item):
        self._items.before_call(item)
        self._watchers.check_tracers()
        self._locations.check_folders()

    def call_ended(self):
        self._run.is_in_call, self._run.current = False, None

    def after_phase(self, recorder):
        self._hooks.check_decisive(recorder)
        self._bindings.check_between_tests()

    def after_call(self, item, raised):
        self._run.running_code = None
        self._programs.call_ended()
        self._exceptions.after_call(item, raised)

    def check(self, recorder):
        """Makes the complete check, after the collection and at the end of the run."""
        self._opened_files.check()
        self._watchers.check()
        # A profile function of the graded code would run on each call below, and CPython 3.11 crashes in some of these
        # calls. A native profiler, such as `cProfile`, runs no graded code and could not be set again.
        watcher = self._watchers.get_profile()
        watcher = watcher if callable(watcher) else None
        if watcher is not None:
            self._watchers.set_profile(None)
        # A check creates many objects but no garbage.
        collects = gc.isenabled()
        gc.disable()
        try:
            self._hooks.check_plugins(recorder)
            self._bindings.check()
            self._hooks.check_objects()
            self._modules.check()
            self._test_classes.check()
            self._snapshot.check()
            self._locations.check_folders()
            self._locations.check_path()
        finally:
            if collects:
                gc.enable()
            if watcher is not None:
                self._watchers.set_profile(watcher)

    def observations(self):
        told = self._reports.observations()
        told.update(path=[text(entry) for entry in self._locations.path], compiled=self._run.compiled)
        return told
