"""Checks where loaded modules come from, and what graded code put into them."""

import dis
import os
import sys
import types

from .bytecode import defined
from .context import Observer
from .snapshot import EXTENSIONS, HANDLERS
from .values import DICT_OF, NAME_OF, OF_EVERY_MODULE, REPLACING, WRAPPERS, is_class, places, text, unwrapped


class Modules(Observer):
    """Modules of the environment, and modules in test folders."""

    def __init__(self, context, bindings, provided, helpers):
        super().__init__(context)
        self._bindings, self._provided, self._helpers = bindings, provided, helpers

    def check_early(self, early, expected):
        """Reports graded modules that the interpreter loaded before any script, except the expected ones."""
        for key in early:
            file = self._paths.module_file(sys.modules.get(key))
            if file and key not in expected:
                self._reports.report("replaced", key, [file])

    def check(self):
        """Reports modules that the environment provides but that came from elsewhere, and objects that the
        graded code put into the environment's modules."""
        everything = list(sys.modules.items())
        graded = {key for key, module in everything if self._paths.module_file(module) is not None}
        for key, module in everything:
            top = key.split(".", 1)[0]
            if module is None:
                continue
            if key in self._helpers:
                self._check_helper(key, module)
            if top not in self._provided:
                continue
            file = self._paths.module_file(module)
            if file is not None:
                self._reports.report("replaced", key, [file])
            elif key == top and isinstance(module, types.ModuleType):
                known = vars(module)
                loader = known.get("__loader__")
                named = known.get("__file__") or known.get("__path__") is not None
                if not named and loader is None:
                    self._reports.report("replaced", key, [""])
            elif key == top:
                self._reports.report("replaced", key, places(module))
                continue
            if file is None and isinstance(module, types.ModuleType):
                self._check_contents(key, module, graded)

    def _check_helper(self, key, module):
        """Checks that a module in a test folder, and its functions, come from its file."""
        self._reports.report("replaced", key, places(module))
        if not isinstance(module, types.ModuleType):
            return
        file = vars(module).get("__file__")
        if not isinstance(file, str):
            return
        # Tests were already compiled in this run.
        codes = self._run.genuine.get(file) or self._sources.codes(key, file)
        for name in self._shadows(module, codes):
            self._reports.report("replaced", key + "." + text(name), places(vars(module)[name]))
        names = {code.co_name for code in codes}
        holders = [(key, module)]
        for name, value in list(vars(module).items()):
            if is_class(value) and value.__module__ == key:
                holders.append((key + "." + text(name), value))
        for label, holder in holders:
            for name, value in list(vars(holder).items()):
                value = unwrapped(value)
                if not isinstance(value, types.FunctionType) or name not in names:
                    continue
                if value.__code__.co_filename.startswith(self._paths.graded) and value.__code__.co_filename != file:
                    self._reports.report("replaced", label + "." + text(name), places(value))

    def _shadows(self, module, codes):
        """Returns the names of builtins that a module defines although no line of its code sets them."""
        found = (vars(module).keys() & self._bindings.builtins.keys()) - OF_EVERY_MODULE
        if not found or not codes:
            return []
        sets = set()
        for code in codes:
            for line in dis.get_instructions(code):
                if line.opname == "IMPORT_STAR" or "IMPORT_STAR" in line.argrepr:
                    return []
                if line.opname == "STORE_GLOBAL" or (line.opname == "STORE_NAME" and code is codes[0]):
                    sets.add(line.argval)
        return sorted(found - sets)

    def _check_contents(self, key, module, graded):
        """Reports names of an environment module that the graded code replaced."""
        known = vars(module)
        file = known.get("__file__")
        for value in list(known.values()):
            # Only a class's own module may define its methods.
            if is_class(value) and value.__module__ == key:
                for name, method in list(vars(value).items()):
                    if type(method) in WRAPPERS:
                        method = unwrapped(method)
                    if type(method) is types.FunctionType:
                        if method.__code__.co_filename.startswith(self._paths.graded):
                            label = "%s.%s.%s" % (key, value.__name__, text(name))
                            if label not in EXTENSIONS and not self._imports(key, file, graded):
                                self._reports.report("replaced", label, places(method))
        standard = not isinstance(file, str) or (
            file.startswith(self._paths.library) and "-packages" + os.sep not in file
        )
        for name, value in list(known.items()):
            kind = type(value)
            if kind is types.FunctionType:
                if not value.__code__.co_filename.startswith(self._paths.graded):
                    given = list(value.__defaults__ or ()) + list((value.__kwdefaults__ or {}).values())
                    modules = [getattr(one, "__module__", None) or type(one).__module__ for one in given]
                    if any(isinstance(name, str) and name in graded for name in modules):
                        self._reports.report("replaced", key + "." + text(name), [""])
                    continue
                if standard and (key == "sys" or name[:1] == "_" or name in HANDLERS):
                    continue
            elif standard:
                continue
            else:
                module = (value if is_class(value) else kind).__module__
                if not isinstance(module, str) or module not in graded:
                    continue
            if not self._imports(key, file, graded):
                self._reports.report("replaced", key + "." + text(name), places(value))

    def _imports(self, key, file, graded):
        """Whether a module of the environment, or another module of its package, imports a graded module. A package may
        expose its classes in any of its modules."""
        tops, own = {name.split(".", 1)[0] for name in graded}, key.split(".", 1)[0]
        files = [(key, file)]
        for name, module in list(sys.modules.items()):
            if name.split(".", 1)[0] == own and isinstance(module, types.ModuleType):
                files.append((name, vars(module).get("__file__")))
        for name, file in files:
            codes = self._sources.codes(name, file) if isinstance(file, str) and file.endswith(".py") else []
            if any(name.split(".", 1)[0] in tops for code in codes for name in code.co_names):
                return True
        return False


class TestClasses(Observer):
    """Checks the classes of test modules."""

    def check(self):
        """Checks that each class in a test module still has the methods that its file defines. Its base class or an
        attribute may have replaced them. Test functions are checked elsewhere."""
        modules = [(key, vars(one)) for key, one in list(sys.modules.items()) if isinstance(one, types.ModuleType)]
        for key, known in modules:
            codes = self._run.genuine.get(known.get("__file__"))
            if not codes:
                continue
            genuine, bodies = {id(code) for code in codes}, {}
            for code in codes:
                bodies.setdefault(code.co_name, []).append(code)
            for value in list(known.values()):
                if is_class(value) and DICT_OF(value).get("__module__") == key:
                    body = bodies.get(NAME_OF(value), ())
                    if len(body) == 1:
                        self._check_class("%s.%s" % (key, NAME_OF(value)), value, body[0], genuine)

    def _check_class(self, label, kind, body, genuine):
        found = DICT_OF(kind)
        made = {one.co_name for one in body.co_consts if isinstance(one, types.CodeType)}.intersection(body.co_names)
        others = {}
        for name in made:
            value = unwrapped(found.get(name))
            for _ in range(10):
                if not isinstance(value, types.FunctionType) or id(value.__code__) in genuine:
                    break
                value = unwrapped(vars(value).get("__wrapped__"))
            if name[:4] != "test" and not (isinstance(value, types.FunctionType) and id(value.__code__) in genuine):
                others[name] = unwrapped(found.get(name))
        for name in others and defined(body, "def"):
            value = others.get(name, self)
            if value is None or isinstance(value, types.FunctionType):
                files = [""] if value is None else self._engine.places(value)
                self._reports.report("replaced", label + "." + name, files)
            elif type(value) in REPLACING:
                self._reports.report("replaced", label + "." + name, [""])
