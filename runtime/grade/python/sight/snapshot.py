"""Compares the environment's modules with how they were before any graded code ran, and modules that were loaded
later with their source."""

import os
import sys
import types

from .bytecode import defined, introduced
from .context import Observer
from .engine import ENGINE, ENGINES, IMPORTERS
from .values import BINDINGS, NAME_OF, OF_EVERY_MODULE, REPLACING, WRAPPERS, is_class, same, state, text, unwrapped

# Attributes that the standard library provides for other code to replace.
HANDLERS = ("showwarning", "formatwarning", "excepthook", "unraisablehook", "displayhook", "breakpointhook")
# Attributes of the standard library that are meant to be replaced, or that libraries often replace.
EXTENSIONS = frozenset(
    (
        "json.encoder.JSONEncoder.default",
        "logging._loggerClass",
        "logging._logRecordFactory",
        "ssl._create_default_https_context",
        "threading._trace_hook",
        "threading._profile_hook",
        "warnings._showwarnmsg_impl",
    )
)


class Snapshot(Observer):
    """The environment's modules before any graded code ran."""

    def __init__(self, context, bindings, provided):
        super().__init__(context)
        self._bindings, self._provided = bindings, provided
        self._found_in = {}
        self._snapshot, self._shadowed, self._seen = [], [], set()
        if "snapshots" in self._checks:
            self._remember()

    def _remember(self):
        for key, module in list(sys.modules.items()):
            is_engine = key.startswith(ENGINE) or key in ENGINES or key in ("builtins", "__main__")
            self._seen.add(key)
            if is_engine or not isinstance(module, types.ModuleType) or self._paths.module_file(module):
                continue
            known = vars(module)
            self._shadowed.append((key, known, frozenset(known)))
            for name, value in list(known.items()):
                if isinstance(value, BINDINGS):
                    self._snapshot.append((key + "." + text(name), known, name, value, state(value)))
                if is_class(value) and vars(value).get("__module__") == key:
                    for inner_name, method in list(vars(value).items()):
                        if isinstance(method, (types.FunctionType,) + WRAPPERS):
                            label = "%s.%s.%s" % (key, NAME_OF(value), text(inner_name))
                            self._snapshot.append((label, value, inner_name, method, state(method)))
        self._known_objects = {id(value): value for _, _, _, value, _ in self._snapshot}
        self._known_objects.update((id(value), value) for value in self._bindings.builtins.values())

    def check(self):
        for label, holder, name, value, was in self._snapshot:
            now = (holder if type(holder) is dict else vars(holder)).get(name, value)
            if now is value:
                if not same(state(value), was):
                    self._report_module(label, [""])
            elif name not in HANDLERS and now is not None:
                # An import does not move an existing object to another name.
                moved = self._known_objects.get(id(now)) is now or type(now) in REPLACING
                self._report_module(label, [""] if moved or self._is_nowhere(now) else self._engine.places(now))
        for key, known, names in self._shadowed:
            for name in (known.keys() & self._bindings.builtins.keys()) - names - OF_EVERY_MODULE:
                self._report_module(key + "." + name, self._engine.places(known[name]))
        for key, module in list(sys.modules.items()) if self._snapshot else ():
            if key not in self._seen and key.split(".", 1)[0] in self._provided:
                self._check_written(key, module)

    def _report_module(self, label, files):
        if label not in EXTENSIONS:
            self._reports.report("replaced", label, files)

    def _check_written(self, key, module):
        """Checks a module that was loaded later: a function that its source defines once and without a
        decorator must be the one from its source. A replacement is reported if it comes from the code under
        test or has no known origin."""
        if not isinstance(module, types.ModuleType) or self._paths.module_file(module):
            return
        known = vars(module)
        file, loader = known.get("__file__"), known.get("__loader__")
        if not isinstance(file, str) or not file.endswith(".py") or type(loader) is not IMPORTERS[1]:
            return
        codes = self._sources.codes(key, file)
        # A module that executes a string may define anything in it.
        if codes and "exec" not in codes[0].co_names:
            self._compare_written(key, known, codes[0])
            for name, source in self._once(introduced, codes[0]).items():
                self._compare_introduced(key, name, known.get(name), source)
            for name, code in self._once(defined, codes[0], "class").items():
                value = known.get(name)
                if type(value) is type and vars(value).get("__module__") == key:
                    self._compare_written("%s.%s" % (key, name), vars(value), code)

    def _once(self, find, code, *arguments):
        """Caches the result of searching a file's code, because every module is checked twice."""
        key = (find, id(code)) + arguments
        if key not in self._found_in:
            self._found_in[key] = code, find(code, *arguments)
        return self._found_in[key][1]

    def _compare_introduced(self, key, name, value, source):
        """Checks a name that a module decorates or imports. The name may refer to any object of the environment, but
        not to a builtin that replaced it, to code without a file, or to code of a graded module. An imported object is
        checked in its own module."""
        if isinstance(value, types.FunctionType):
            is_put = self._is_nowhere(value)
        else:
            is_put = type(value) in REPLACING
        if is_put and not (source is not None and self._comes_from(key, name, value, source)):
            self._report_module(key + "." + name, [""])

    @staticmethod
    def _comes_from(key, name, value, source):
        for other, module in list(sys.modules.items()):
            if other != key and (not source or other == source or other.endswith("." + source)):
                if isinstance(module, types.ModuleType) and vars(module).get(name) is value:
                    return True
        return False

    def _is_nowhere(self, value):
        """Whether a function's code has no file and the function's module is graded or does not exist."""
        if not isinstance(value, types.FunctionType) or value.__code__.co_filename[:1] == "/":
            return False
        if "__wrapped__" in vars(value):
            return False
        file = dict.get(value.__globals__, "__file__")
        if isinstance(file, str):
            return file.startswith(self._paths.graded) and "-packages" + os.sep not in file
        return not self._frames.is_of_module(value.__globals__)

    def _compare_written(self, label, known, code):
        for name, written in self._once(defined, code, "def").items():
            value = unwrapped(known.get(name, written))
            if value is written or value is None:
                continue
            if isinstance(value, types.FunctionType):
                found = value.__code__
                if found.co_filename == code.co_filename and found in self._sources.written.get(code.co_filename, ()):
                    continue
                # A file name that is the module's own, or missing, is forged.
                is_forged = found.co_filename == code.co_filename or found.co_filename[:1] != "/"
                self._report_module(label + "." + name, [""] if is_forged else self._engine.places(value))
            elif self._known_objects.get(id(value)) is value or type(value) in REPLACING:
                self._report_module(label + "." + name, [""])
