"""Checks the collected tests: their functions, classes, parameters and fixtures."""

import sys
import types

from .context import Observer
from .values import class_overrides, places, same, state, unwrapped


class Items(Observer):
    """The tests as they were collected."""

    def __init__(self, context):
        super().__init__(context)
        self._tests, self._functions = {}, {}

    def remember_functions(self, items):
        """Records the functions' code before canaries replace it."""
        for item in items:
            function = self._function(item)
            if function is not None:
                self._functions.setdefault(function, state(function))

    def remember(self, items):
        """Records the collected tests, and checks their functions."""
        for nodeid in self._run.canaries.others:
            self._reports.report("swapped", nodeid, [""])
        for item in items:
            function = self._function(item)
            code = None
            if function is not None:
                code = self._functions.get(function) or state(function)
            kept = (item, code, self._given(item), type(item), class_overrides(item))
            self._tests.setdefault(item.nodeid, []).append(kept)
            if not self._engine.is_own_class(type(item)):
                self._reports.report("patched", "the class of a test", [""])
            if function is None:
                continue
            own = str(getattr(item, "path", None) or getattr(item, "fspath", ""))
            files = [file for file in places(function) if file != own]
            genuine = self._run.genuine.get(own)
            if not files and genuine is not None:
                # The function must have the same code object that was compiled, not just the same file name.
                is_genuine = any(code[1] is piece for piece in genuine)
                if not is_genuine and not self._is_hypothesis_wrapper(function, genuine):
                    files = [""]
            if files:
                # Report one function per file: a base class or decorator usually affects many.
                self._reports.report("foreign", item.nodeid.split("::", 1)[0], files)

    def before_call(self, item):
        """Checks that the function to be called is the one that was collected."""
        self._run.has_failed_assertion = self._run.has_raised = False
        was = [found for found in self._tests.get(item.nodeid, ()) if found[0] is item]
        if not was:
            self._reports.report("swapped", item.nodeid, [""])
        called = None
        for _, function, given, kind, in_front in was:
            try:
                now = unwrapped(item.obj) if function is not None else None
                # A test that requests a fixture at run time adds it to the known fixtures.
                found = self._given(item)
            except Exception:
                now, found = None, {}
            if type(item) is not kind:
                self._reports.report_object("the class of a test", [""])
            for name, value in class_overrides(item).items():
                if in_front.get(name, self) is not value:
                    self._reports.report_object("%s of a test" % name, self._engine.places(value))
            exchanged, code = self._run.canaries.code(item)
            if function is not None and exchanged is function[0]:
                function = (function[0], code) + function[2:]
            if function is not None and not same(state(now), function):
                self._reports.report("swapped", item.nodeid, places(now))
            if not all(same(parts, found.get(name, ())) for name, parts in given.items()):
                self._reports.report("swapped", item.nodeid, [""])
            called = now
        self._run.running_code = getattr(called, "__code__", None) if type(called) is types.FunctionType else None
        name = getattr(item, "originalname", None) or item.name.split("[", 1)[0]
        self._run.current = (str(getattr(item, "path", None) or getattr(item, "fspath", "")), name)
        self._run.is_in_call = True

    @staticmethod
    def _is_hypothesis_wrapper(function, genuine):
        """Whether a function is Hypothesis's wrapper around a test. The wrapper has the test's name, file and line."""
        drawn = vars(function).get("hypothesis")
        core = sys.modules.get("hypothesis.core")
        if core is None or type(drawn) is not vars(core).get("HypothesisHandle"):
            return False
        tested = unwrapped(getattr(drawn, "inner_test", None))
        for _ in range(20):
            if not isinstance(tested, types.FunctionType):
                return False
            if any(tested.__code__ is piece for piece in genuine):
                return True
            tested = unwrapped(vars(tested).get("__wrapped__"))
        return False

    @staticmethod
    def _function(item):
        try:
            found = vars(item).get("_obj")
            if found is None:
                found = getattr(item.parent.obj, item.originalname or item.name)
        except Exception:
            return None
        found = unwrapped(found)
        return found if isinstance(found, types.FunctionType) else None

    @staticmethod
    def _given(item):
        """Returns a test's inputs: its parameters, and the functions of its fixtures."""
        params = getattr(getattr(item, "callspec", None), "params", None) or {}
        given = {("parameter", name): (value,) for name, value in list(params.items())}
        fixtures = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", None) or {}
        for name, found in list(fixtures.items()):
            parts = [part for fixture in found for part in (fixture,) + state(fixture.func)]
            given["fixture", name] = tuple(parts)
        return given
