"""Checks the builtins and the names of the test engine's modules and classes."""

import builtins
import sys
import time
import types

from .context import Observer
from .engine import holders
from .values import BINDINGS, is_class, places, same, state

SHARE = 50  # Checks between tests take at most 1/50 of the time.


class Bindings(Observer):
    """The builtins and the engine's names, as they were before any graded code ran."""

    def __init__(self, context):
        super().__init__(context)
        self._now, self._last, self._cost = time.perf_counter, 0.0, 0.0
        self.builtins = dict(vars(builtins))
        self._modules, self._bindings, self._names = {}, [], []
        for label, holder in holders():
            if isinstance(holder, types.ModuleType):
                self._modules[label] = holder
            for name, value in list(vars(holder).items()):
                if isinstance(value, BINDINGS):
                    self._bindings.append((label, holder, name, value, state(value)))
            self._names.append((label, holder, frozenset(vars(holder))))

    def accept_import(self):
        """Accepts the import functions that the grader itself replaced after the initial snapshot."""
        self.builtins["__import__"] = builtins.__import__
        own = ("importlib", "import_module")
        for at, (label, holder, name, _, _) in enumerate(self._bindings):
            if (label, name) == own:
                value = vars(holder)[name]
                self._bindings[at] = (label, holder, name, value, state(value))

    def check_between_tests(self):
        """Checks the bindings unless the last check was a short time ago."""
        start = self._now()
        if start - self._last > SHARE * self._cost:
            self.check()
            self._last = self._now()
            self._cost = self._last - start

    def check(self):
        now = vars(builtins)
        for name, value in self.builtins.items():
            if now.get(name) is not value:
                self._reports.report("patched", "builtins." + name, places(now.get(name)))
        for label, holder, name, value, was in self._bindings:
            found = vars(holder).get(name)
            if found is value:
                if not same(state(found), was):
                    # Changing a function in place has no honest use, whatever file the code claims.
                    self._reports.report("patched", label + "." + name, [""])
            else:
                files = places(found) if self._sources.is_written(found) else [""]
                self._reports.report("patched", label + "." + name, files)
        for label, holder, names in self._names:
            for name in vars(holder).keys() - names:
                value = vars(holder)[name]
                # A new name that shadows a name in the builtins or a base class.
                further = self.builtins if isinstance(holder, types.ModuleType) else ()
                if name in further or (is_class(holder) and isinstance(value, BINDINGS)):
                    self._reports.report("patched", label + "." + name, places(value))
        for label, module in self._modules.items():
            if sys.modules.get(label) is not module:
                self._reports.report("patched", "sys.modules[%r]" % label, places(sys.modules.get(label)))
