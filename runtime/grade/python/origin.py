"""Keeps a submission apart from the library that it had to rewrite, and reports which parts of the library the
submission used.

The library may be in the sandbox, because tests may use other parts of it. Code below `root` may neither import nor
read the library: such an import fails as if the library were not installed, and is reported. The library's objects
are also reported if the submission has them under one of its names, or if a test gets them from the submission.
Runs on Python 3.6 and later; reads are detected from 3.8 on.
"""

import ast
import builtins
import functools
import importlib
import os
import sys
import types

MAX_REPORTS = 20  # Maximum number of reports. More would add nothing new.


def is_class(value):
    # Unlike `type()`, `isinstance` believes `__class__`, which `list[int]` forwards to `list` before Python 3.11.
    return issubclass(type(value), type)


def text(value):
    return str(value).encode("utf-8", "backslashreplace").decode("utf-8")


class Origin:
    def __init__(self, emit, order):
        self._emit = emit
        self._folder = os.path.realpath(order["folder"]) + os.sep
        self._workdir = os.path.realpath(order["workdir"]) + os.sep
        self._modules = frozenset(order["modules"])
        self._test_folders = frozenset(order["test_folders"])
        self._test_files = [os.path.join(self._workdir, name) for name in order["test_files"]]
        self._library = os.path.dirname(os.__file__) + os.sep
        self._said = set()
        self._classes = None

    def install(self):
        real = builtins.__import__
        real_module = importlib.import_module

        def guarded(name, globals=None, locals=None, fromlist=(), level=0):
            if level == 0:
                wanted = ", ".join(fromlist or ())
                self._refuse(name, wanted, sys._getframe(1))
            return real(name, globals, locals, fromlist, level)

        @functools.wraps(real_module)
        def import_module(name, package=None):
            if isinstance(name, str) and not name.startswith("."):
                self._refuse(name, "", sys._getframe(1))
            return real_module(name, package)

        builtins.__import__ = guarded
        importlib.import_module = import_module
        if hasattr(sys, "addaudithook"):
            sys.addaudithook(self._audit)

    def _audit(self, event, arguments):
        if event == "import":
            if str(arguments[0]).split(".", 1)[0] in self._modules:
                self._refuse(arguments[0], "", sys._getframe(1))
        elif event == "open":
            path = arguments[0]
            if isinstance(path, bytes):
                path = os.fsdecode(path)
            if not isinstance(path, str) or not path.endswith((".py", ".pyc", ".pyx")):
                return
            path = os.path.abspath(path)
            if self._is_original(path):
                who = self._responsible_file(sys._getframe(1))
                if who is not None:
                    self._report("%s reads %s" % (who, path[len(self._workdir) :]))
                    raise FileNotFoundError(2, "No such file or directory", path)

    def _refuse(self, name, wanted, frame):
        if str(name).split(".", 1)[0] not in self._modules:
            return
        who = self._responsible_file(frame)
        if who is None:
            return
        what = "%s of %s" % (wanted, name) if wanted else name
        self._report("%s imports %s" % (who, what))
        raise ModuleNotFoundError("No module named %r" % str(name), name=str(name))

    def _responsible_file(self, frame):
        """Returns the submission's file that caused an access; `None` if other code caused it. The nearest file
        on the stack that is not in the standard library counts as the cause."""
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(self._folder):
                return file[len(self._folder) :]
            library = file.startswith(self._library) and "-packages" + os.sep not in file
            if file.startswith(os.sep) and file != __file__ and not library:
                return None
            frame = frame.f_back
        return None

    def _is_original(self, file):
        if not isinstance(file, str) or not file.startswith(self._workdir):
            return False
        if file in self._test_files or os.path.basename(file) == "conftest.py":
            return False
        return not self._test_folders.intersection(file[len(self._workdir) :].split(os.sep))

    def _report(self, what):
        if len(self._said) < MAX_REPORTS and what not in self._said:
            self._said.add(what)
            self._emit({"t": "origin", "what": text(what)})

    def check(self):
        """Reports every name of the submission that refers to an object of the library."""
        for key, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if isinstance(file, str) and file.startswith(self._folder):
                for name, value in list(vars(module).items()):
                    self._compare(file[len(self._folder) :] + ": " + name, value)
        for module, name in sorted(self._used_by_tests()):
            try:
                value = getattr(sys.modules.get(module), name, None)
            except Exception:  # The submission may define `__getattr__`.
                continue
            self._compare("%s.%s" % (module, name), value)

    def _used_by_tests(self):
        """Returns the submission's names that the tests use: `package.name`, and `from package import name`."""
        mine = {
            key
            for key, module in list(sys.modules.items())
            if str(getattr(module, "__file__", None) or "").startswith(self._folder)
        }
        asked = set()
        for file in self._test_files:
            try:
                with open(file, "rb") as source:
                    tree = ast.parse(source.read())
            except (OSError, SyntaxError, ValueError):
                continue
            called = {
                alias.asname or alias.name: alias.name
                for node in ast.walk(tree)
                if isinstance(node, ast.Import)
                for alias in node.names
                if alias.name in mine
            }
            for node in ast.walk(tree):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                    if node.value.id in called:
                        asked.add((called[node.value.id], node.attr))
                elif isinstance(node, ast.ImportFrom) and node.module in mine:
                    asked.update((node.module, alias.name) for alias in node.names)
        return asked

    def _compare(self, name, value):
        try:
            place = self._place(value)
        except Exception:  # An object that cannot be inspected does not belong to the library.
            place = None
        if place is not None:
            self._report("%s is %s" % (name, place))

    def _place(self, value):
        """Returns the part of the library that an object belongs to or is built from."""
        if isinstance(value, types.ModuleType):
            return self._of_module(value.__name__, getattr(value, "__file__", None))
        if is_class(value):
            for base in value.__mro__:
                module = sys.modules.get(base.__module__)
                place = self._of_module(base.__module__, getattr(module, "__file__", None))
                if place is not None and not self._only_claims_module(base):
                    return "%s of %s" % (base.__qualname__, place)
                for method in list(vars(base).values()):
                    if self._is_original(self._file(method)):
                        return "%s of %s" % (base.__qualname__, self._short(self._file(method)))
            return None
        file = self._file(value)
        if file is not None:
            if self._is_original(file):
                return "%s of %s" % (getattr(value, "__qualname__", "code"), self._short(file))
            return None
        return self._place(type(value))

    def _only_claims_module(self, kind):
        """Whether a class only claims to be in a module of the library. Any code can set `__module__`, and many
        libraries set it to their top package. Such a class belongs to the submission if one of the submission's
        files has a class statement with this name and no module of the library contains the class."""
        for module in list(sys.modules.values()):
            if isinstance(module, types.ModuleType) and self._is_original(getattr(module, "__file__", None)):
                values = list(vars(module).values())
                inner = [vars(it).values() for it in values if is_class(it)]
                if any(it is kind for it in values) or any(it is kind for some in inner for it in some):
                    return False
        return kind.__name__ in self._class_names()

    def _class_names(self):
        """Returns the names in the submission's class statements."""
        if self._classes is None:
            self._classes = set()
            for folder, _, names in os.walk(self._folder):
                for name in names:
                    if not name.endswith(".py"):
                        continue
                    try:
                        with open(os.path.join(folder, name), "rb") as source:
                            tree = ast.parse(source.read())
                    except (OSError, SyntaxError, ValueError):
                        continue
                    found = (node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
                    self._classes.update(found)
        return self._classes

    def _of_module(self, name, file):
        if isinstance(file, str) and file.startswith(self._folder):
            return None
        if self._is_original(file):
            return str(name)
        if file is not None and str(name).split(".", 1)[0] in self._modules:
            # The module is installed and does not come from the work directory.
            return None if str(file).startswith(self._workdir) else str(name)
        return None

    def _file(self, value):
        """Returns the file of a function's code, without its wrappers."""
        for _ in range(8):
            if isinstance(value, (staticmethod, classmethod)):
                value = value.__func__
            elif isinstance(value, property):
                value = value.fget
            elif isinstance(value, functools.partial):
                value = value.func
            elif isinstance(value, types.MethodType):
                value = value.__func__
            else:
                break
        if isinstance(value, types.FunctionType):
            inner = vars(value).get("__wrapped__")
            if isinstance(inner, types.FunctionType) and self._is_original(inner.__code__.co_filename):
                return inner.__code__.co_filename
            return value.__code__.co_filename
        return None

    def _short(self, file):
        return file[len(self._workdir) :]
