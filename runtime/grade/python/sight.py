"""Sees what code under test changes inside the interpreter: functions and classes of pytest, pluggy
and unittest, builtins, hooks, plugins, test functions, modules. It prevents nothing; what it sees
is judged by the grader. Loaded before any of the graded code. Runs on Python 3.6 and later.
"""

import builtins
import dis
import hashlib
import importlib.machinery
import inspect
import linecache
import os
import sys
import time
import traceback
import types
import unittest
import zipimport

import pytest

ENGINE = ("_pytest.", "pluggy.", "unittest.")
ENGINES = (
    "_pytest",
    "pluggy",
    "pytest",
    "unittest",
    "importlib",
    "importlib.util",
    "importlib.machinery",
    "_frozen_importlib",
    "_frozen_importlib_external",
    "zipimport",
)
BINDINGS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    type,
    staticmethod,
    classmethod,
    property,
)
# What finds and loads modules in folders and archives.
IMPORTERS = (
    importlib.machinery.FileFinder,
    importlib.machinery.SourceFileLoader,
    importlib.machinery.SourcelessFileLoader,
    importlib.machinery.ExtensionFileLoader,
    zipimport.zipimporter,
)
WRAPPERS = (staticmethod, classmethod, property)
# Hooks that decide what is reported of a test: looked at after each phase.
DECISIVE = (
    "pytest_pyfunc_call",
    "pytest_runtest_protocol",
    "pytest_runtest_setup",
    "pytest_runtest_call",
    "pytest_runtest_teardown",
    "pytest_runtest_makereport",
    "pytest_runtest_logreport",
    "pytest_fixture_setup",
)
# What the standard library has to be replaced by whoever wants to.
HANDLERS = ("showwarning", "formatwarning", "excepthook", "unraisablehook", "displayhook")
# Methods of its classes that are documented as a place for code of one's own.
EXTENSIONS = frozenset(("json.encoder.JSONEncoder.default",))
# A test whose code has one of these names may have a use for an assertion that fails.
CATCHING = frozenset(
    ("AssertionError", "Exception", "BaseException", "failureException", "raises", "suppress")
    + ("assertRaises", "assertRaisesRegex", "assertRaisesRegexp", "subTest", "subtests")
)
# Functions that show a stack: they read the lines of the callers. Bound here, before any graded code, and compared
# by identity: anybody can compile code that bears their names.
SHOWING = tuple(f.__code__ for f in (inspect.stack, traceback.format_stack, traceback.print_stack))
LINES = tuple(f.__code__ for f in (linecache.getlines, linecache.updatecache))
# Names that every module has, and the builtins' module too.
OF_EVERY_MODULE = frozenset(("__name__", "__doc__", "__package__", "__loader__", "__spec__"))
MOST = 1000  # Of each list; past it one more says so.
SHARE = 50  # Looks between tests take one part in so many of the time, at most.


def text(value):
    return str(value).encode("utf-8", "backslashreplace").decode("utf-8")


def unwrapped(value):
    if isinstance(value, (staticmethod, classmethod, types.MethodType)):
        value = value.__func__
    if isinstance(value, property):
        value = value.fget
    return value


def state(value):
    """What makes a function do what it does, besides itself."""
    value = unwrapped(value)
    if isinstance(value, types.FunctionType):
        return value, value.__code__, value.__defaults__, value.__kwdefaults__
    return (value,)


def inner(code):
    """A piece of code and all pieces within it."""
    pending, found = [code], []
    while pending:
        code = pending.pop()
        if isinstance(code, types.CodeType):
            found.append(code)
            pending.extend(code.co_consts)
    return found


def same(one, other):
    return len(one) == len(other) and all(a is b for a, b in zip(one, other))


def places(value):
    """The files that a value was written in, by its compiled code. What a name says (`__module__`)
    anybody can set; a forged file name must agree with the module that the code runs in."""
    value = unwrapped(value)
    if isinstance(value, types.ModuleType):
        return [text(vars(value).get("__file__") or "")]
    if isinstance(value, types.FunctionType):
        file = value.__code__.co_filename
        module = value.__globals__.get("__file__")
        if not file.startswith("/"):
            return [text(module or file)]
        return sorted({text(file), text(module)}) if isinstance(module, str) else [text(file)]
    holder = value if isinstance(value, type) else type(value)
    found = set()
    for base in holder.__mro__[:-1]:
        for member in list(vars(base).values()):
            member = unwrapped(member)
            if isinstance(member, types.FunctionType):
                file = text(member.__code__.co_filename)
                if file.startswith("/"):
                    found.add(file)
    if not found:
        module = sys.modules.get(holder.__module__)
        found.add(text(getattr(module, "__file__", None) or ""))
    return sorted(found)


def holders():
    """Modules of the engine, and the classes that they define."""
    for key, module in list(sys.modules.items()):
        if isinstance(module, types.ModuleType) and (key.startswith(ENGINE) or key in ENGINES):
            yield key, module
            for value in list(vars(module).values()):
                if isinstance(value, type) and value.__module__ == key:
                    yield key + "." + value.__qualname__, value


class Sight:
    def __init__(self, root, order, early):
        self._root = root + os.sep
        self._work = os.getcwd() + os.sep
        self._graded = (self._root, self._work)
        if order["submitted"] is not None:
            self._graded += (order["submitted"]["folder"].rstrip(os.sep) + os.sep,)
        self._library = os.path.dirname(os.__file__) + os.sep
        self._provided = frozenset(order["provided"])
        self._known = frozenset(order["loaded"])
        self._early = early
        self._watch = {os.path.join(self._work, name): name for name in order["watch"]}
        self._open, self._read, self._close = os.open, os.read, os.close
        self._sha256, self._now = hashlib.sha256, time.perf_counter
        self._compiled = {}
        self._genuine = {}
        self._path = []
        self._hash_what_is_compiled()
        self._swallowed, self._failing = {}, False
        self._see_failing_assertions()
        self._readers = {}
        self._see_who_reads()
        self._stat, self._looked, self._walked = os.stat, 0.0, 0.0
        self._folders = {self._work + name: self._identity(self._work + name) for name in order["folders"]}
        self._here = {".": self._identity(".")}
        self._helpers = frozenset(order["helpers"])
        self._builtins = dict(vars(builtins))
        self._modules = {}
        self._bindings = []
        self._names = []
        for label, holder in holders():
            if isinstance(holder, types.ModuleType):
                self._modules[label] = holder
            for name, value in list(vars(holder).items()):
                if isinstance(value, BINDINGS):
                    self._bindings.append((label, holder, name, value, state(value)))
            self._names.append((label, holder, frozenset(vars(holder))))
        self._finders = list(sys.meta_path), list(sys.path_hooks)
        self._pluggy = set(places(sys.modules["pluggy"].HookimplMarker)) if "pluggy" in sys.modules else set()
        self._patched, self._plugins, self._replaced = {}, {}, {}
        self._foreign, self._swapped, self._moved = {}, {}, {}
        self._tests, self._hooks, self._functions = {}, None, {}
        self._config = self._session = self._canaries = None
        self._last = self._cost = 0.0
        self._written = {}
        for key in early:
            file = self._inside(sys.modules.get(key))
            if file and key not in self._known:
                self._tell(self._replaced, key, [file])

    def accept_import(self):
        """The grader's own change, made after the first look."""
        self._builtins["__import__"] = builtins.__import__
        own = ("importlib", "import_module")
        for at, (label, holder, name, _, _) in enumerate(self._bindings):
            if (label, name) == own:
                value = vars(holder)[name]
                self._bindings[at] = (label, holder, name, value, state(value))

    # What is compiled as a test is what is hashed, whatever stands there before and after.

    def _hash_what_is_compiled(self):
        rewrite = sys.modules.get("_pytest.assertion.rewrite")
        original = getattr(rewrite, "_rewrite_test", None)
        if original is None:
            return

        def hashed(*arguments):
            paths = [os.path.abspath(str(a)) for a in arguments if isinstance(a, (str, os.PathLike))]
            name = self._watch.get(paths[0]) if paths else None
            if name is None:
                return original(*arguments)
            before = self.hash(paths[0])
            result = original(*arguments)
            after = self.hash(paths[0])
            self._compiled.setdefault(name, []).append(before if before == after else None)
            code = next((part for part in result if isinstance(part, types.CodeType)), None)
            self._genuine.setdefault(paths[0], []).extend(inner(code))
            return result

        rewrite._rewrite_test = hashed

    # An assertion that failed ends its test. Code under test can keep it from that: by a context
    # manager or a caller that swallows it, or in a thread.

    def _see_failing_assertions(self):
        rewrite = sys.modules.get("_pytest.assertion.rewrite")
        library = os.path.dirname(unittest.__file__) + os.sep
        frame_of = sys._getframe

        def seen(original):
            def seen(*given, **named):
                frame = frame_of(1)
                while frame is not None and frame.f_code.co_filename.startswith(library):
                    frame = frame.f_back
                self._saw_failing(frame)
                return original(*given, **named)

            return seen

        # pytest explains a comparison that failed, unittest says what was expected.
        if hasattr(rewrite, "_format_explanation"):
            rewrite._format_explanation = seen(rewrite._format_explanation)
        if hasattr(unittest.TestCase, "_formatMessage"):
            unittest.TestCase._formatMessage = seen(unittest.TestCase._formatMessage)

        stop = getattr(unittest.case, "_ShouldStop", None)
        if stop is not None:
            # unittest ends a test at this one without a failure, whoever raises it.
            def raised(error, *given):
                if not frame_of(1).f_code.co_filename.startswith(library):
                    self._failing = True

            unittest.case._ShouldStop = type("_ShouldStop", (stop,), {"__init__": raised})

    def _saw_failing(self, frame):
        if self._canaries is not None and self._canaries.current is not None:
            return  # It is to fail, and what follows reads a file.
        asserting = frame
        while frame is not None:
            code = frame.f_code
            # Only what the tests' own files catch is theirs to catch.
            if code.co_filename in self._watch and not CATCHING.isdisjoint(self._names_in(code)):
                return
            frame = frame.f_back
        if asserting is not None and asserting.f_code.co_filename in self._watch:
            self._failing = True

    def _names_in(self, code):
        """The names of a piece of code as it is written: what pytest makes of it raises by name."""
        for written in self._codes("", code.co_filename):
            if (written.co_name, written.co_firstlineno) == (code.co_name, code.co_firstlineno):
                return written.co_names
        return code.co_names

    def after_call(self, item, raised):
        """A test that passed although one of its assertions failed."""
        if self._failing and not raised and self._canaries.current is None:
            self._tell(self._swallowed, item.nodeid, [""])

    # Code under test that reads the tests may answer what stands in them.

    def _see_who_reads(self):
        """Reading is seen from 3.8 on: of this process, and of a program that is told a test's name."""
        if not hasattr(sys, "addaudithook"):
            return
        stat, frame_of, base = os.stat, sys._getframe, os.path.basename
        files, stems, names = {}, {}, {}
        for path, name in self._watch.items():
            if name.endswith(".py"):
                stems[base(name)[:-3]] = names[base(name)] = name
                try:
                    found = stat(path)
                    files[found.st_dev, found.st_ino] = name
                except OSError:
                    pass

        def test_at(path):
            path = os.fsdecode(path) if isinstance(path, bytes) else path
            if not isinstance(path, str):
                return None
            if path.endswith(".pyc"):
                return stems.get(base(path).split(".", 1)[0])
            try:
                found = stat(path)
            except (OSError, ValueError):
                return None
            return files.get((found.st_dev, found.st_ino)) or self._watch.get(os.path.abspath(path))

        def audit(event, arguments):
            if event == "open":
                tests = [test_at(arguments[0])]
            elif event in ("subprocess.Popen", "os.system", "os.posix_spawn", "os.exec"):
                told = repr(arguments[:2])
                tests = [name for short, name in names.items() if short in told]
            else:
                return
            for name in tests:
                reader = name and self._reader(frame_of(2))
                if reader:
                    self._tell(self._readers, name, [reader])

        def safely(event, arguments):
            try:
                audit(event, arguments)
            except Exception:  # What cannot be judged goes on: a hook that raises would end it.
                pass

        sys.addaudithook(safely)

    def _reader(self, frame):
        """The file of the code under test that something is done for, if it is for any. Of a thread that no
        code started in sight: the thread."""
        if frame is not None and frame.f_globals is globals():
            return None  # The look at a test whose assertion failed.
        last = None
        lines = shown = False
        while frame is not None:
            file, last = frame.f_code.co_filename, frame
            lines = lines or any(frame.f_code is code for code in LINES)
            shown = shown or (lines and any(frame.f_code is code for code in SHOWING))
            own = file in self._watch and frame.f_globals.get("__file__") == file
            library = "-packages" + os.sep in file or file.startswith(self._library)
            if file.startswith(self._graded) and not own and not library:
                if shown:
                    return None  # A log entry with its stack. Screening looks at what is done with it.
                return file[len(self._root) :] if file.startswith(self._root) else file
            frame = frame.f_back
        bottom = last is not None and last.f_globals.get("__name__")
        return "a thread" if bottom == "threading" else None

    def hash(self, path):
        try:
            file = self._open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            digest = self._sha256()
            while True:
                piece = self._read(file, 1 << 20)
                if not piece:
                    return digest.hexdigest()
                digest.update(piece)
        except OSError:
            return None
        finally:
            self._close(file)

    # Plugins and hooks.

    def configured(self, config):
        self._config = config
        self.look_at_path()

    def is_ready(self):
        """Pytest came as far as its configuration."""
        return self._config is not None

    def registered(self, plugin, manager):
        """A plugin counts that was registered at any time."""
        try:
            name = manager.get_name(plugin) or type(plugin).__name__
        except Exception:
            name = type(plugin).__name__
        self._tell(self._plugins, name, places(plugin))
        self.look_at_path()

    def _look_at_plugins(self, recorder):
        manager = self._config.pluginmanager
        for name, plugin in manager.list_name_plugin():
            if plugin is not None and plugin is not recorder:
                self._tell(self._plugins, name, places(plugin))
        for caller in list(vars(self._config.hook).values()):
            for impl in self._impls(caller):
                if impl.plugin is not recorder:
                    self._tell(self._plugins, impl.plugin_name, places(impl.function))

    @staticmethod
    def _impls(caller):
        try:
            return list(caller.get_hookimpls())
        except Exception:
            return []

    def _decisive(self):
        hooks = vars(self._config.hook)
        return [impl for name in DECISIVE for impl in self._impls(hooks.get(name))]

    # Tests.

    def before_canaries(self, items):
        """A canary exchanges a function's code: what it was is known from before."""
        for item in items:
            function = self._function(item)
            if function is not None:
                self._functions.setdefault(function, state(function))

    def collected(self, session, recorder, canaries):
        self._session = session
        self._canaries = canaries
        self._look_at_folders(self._here)
        self._looked = 0.0
        self.look(recorder)
        self._hooks = self._decisive()
        for nodeid in canaries.others:
            self._tell(self._swapped, nodeid, [""])
        for item in session.items:
            function = self._function(item)
            code = None
            if function is not None:
                code = self._functions.get(function) or state(function)
            self._tests.setdefault(item.nodeid, []).append((item, code, self._given(item)))
            if function is None:
                continue
            own = str(getattr(item, "path", None) or getattr(item, "fspath", ""))
            files = [file for file in places(function) if file != own]
            genuine = self._genuine.get(own)
            if not files and genuine is not None:
                # The very piece of code that was compiled, not one that has the file's name.
                if not any(code[1] is piece for piece in genuine):
                    files = [""]
            if files:
                # One of a file is enough: what a base class or a decorator brings comes in numbers.
                self._tell(self._foreign, item.nodeid.split("::", 1)[0], files)

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
        """What a test is given: its parameters, and the functions behind its fixtures."""
        params = getattr(getattr(item, "callspec", None), "params", None) or {}
        given = {("parameter", name): (value,) for name, value in list(params.items())}
        fixtures = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", None) or {}
        for name, found in list(fixtures.items()):
            parts = [part for fixture in found for part in (fixture,) + state(fixture.func)]
            given["fixture", name] = tuple(parts)
        return given

    def before_call(self, item):
        """What is called is what was collected."""
        self._failing = False
        was = [found for found in self._tests.get(item.nodeid, ()) if found[0] is item]
        if not was:
            self._tell(self._swapped, item.nodeid, [""])
        for _, function, given in was:
            try:
                now = unwrapped(item.obj) if function is not None else None
                # A fixture that a test asks for as it runs comes to those that were known.
                found = self._given(item)
            except Exception:
                now, found = None, {}
            exchanged, code = self._canaries.code(item)
            if function is not None and exchanged is function[0]:
                function = (function[0], code) + function[2:]
            if function is not None and not same(state(now), function):
                self._tell(self._swapped, item.nodeid, places(now))
            if not all(same(parts, found.get(name, ())) for name, parts in given.items()):
                self._tell(self._swapped, item.nodeid, [""])
        for name in ("runtest", "setup", "teardown", "repr_failure", "ihook", "obj"):
            if name in vars(item):
                self._tell(self._patched, "%s of a test" % name, places(vars(item)[name]))
        self._look_at_folders(self._folders)

    def after_phase(self, recorder):
        now = self._decisive()
        if self._hooks is not None and not same(now, self._hooks):
            self._hooks = now
            self._look_at_plugins(recorder)
        start = self._now()
        if start - self._last > SHARE * self._cost:
            self._look_at_bindings()
            self._last = self._now()
            self._cost = self._last - start

    # Where tests lie.

    def _identity(self, folder):
        try:
            status = self._stat(folder)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _look_at_folders(self, folders):
        """A folder that was moved away and back leaves no trace on its files."""
        start = self._now()
        if start - self._looked > SHARE * self._walked:
            for folder, was in folders.items():
                if self._identity(folder) != was:
                    self._tell(self._moved, folder[len(self._work) :] or "the working directory", [""])
            self._looked = self._now()
            self._walked = self._looked - start

    # All of it.

    def look(self, recorder):
        self._look_at_plugins(recorder)
        self._look_at_bindings()
        self._look_at_objects()
        self._look_at_modules()
        self._look_at_folders(self._folders)
        self.look_at_path()

    def look_at_path(self):
        for entry in sys.path:
            if entry not in self._path and len(self._path) < 1000:
                self._path.append(entry)

    def _look_at_bindings(self):
        now = vars(builtins)
        for name, value in self._builtins.items():
            if now.get(name) is not value:
                self._tell(self._patched, "builtins." + name, places(now.get(name)))
        for label, holder, name, value, was in self._bindings:
            found = vars(holder).get(name)
            if found is value:
                if not same(state(found), was):
                    # In place: nobody has an honest use for that, whatever file it claims.
                    self._tell(self._patched, label + "." + name, [""])
            else:
                files = places(found) if self._is_written(found) else [""]
                self._tell(self._patched, label + "." + name, files)
        for label, holder, names in self._names:
            for name in vars(holder).keys() - names:
                value = vars(holder)[name]
                # A name that was looked up further on until now.
                further = self._builtins if isinstance(holder, types.ModuleType) else ()
                if name in further or (isinstance(holder, type) and isinstance(value, BINDINGS)):
                    self._tell(self._patched, label + "." + name, places(value))
        for label, module in self._modules.items():
            if sys.modules.get(label) is not module:
                self._tell(self._patched, "sys.modules[%r]" % label, places(sys.modules.get(label)))

    def _is_written(self, value):
        """Whether a function stands in the file that its code claims."""
        value = unwrapped(value)
        if not isinstance(value, types.FunctionType):
            return True
        file, name = value.__code__.co_filename, str(value.__globals__.get("__name__"))
        if file.startswith(self._graded) or not file.startswith("/"):
            return True
        return value.__code__ in self._codes(name, file)

    def _codes(self, name, file):
        """Every piece of code that stands in a file."""
        if file not in self._written:
            try:
                whole = importlib.machinery.SourceFileLoader(name, file).get_code(name)
            except Exception:
                whole = None
            self._written[file] = inner(whole)
        return self._written[file]

    def _look_at_objects(self):
        """Functions in an object's own dictionary come before those of its class."""
        config, session = self._config, self._session
        objects = [config, config.pluginmanager, config.hook, session, pytest.mark]
        objects += [getattr(session, "_setupstate", None), getattr(session, "_fixturemanager", None)]
        objects += list(sys.meta_path)
        for finder in list(sys.path_importer_cache.values()):
            if finder is not None:
                objects.append(finder)
                for part in [finder] + [loader for _, loader in getattr(finder, "_loaders", ())]:
                    kind = part if isinstance(part, type) else type(part)
                    if kind not in IMPORTERS:
                        self._tell(self._patched, "an import hook", places(kind))
        for thing in objects:
            if isinstance(thing, type):
                continue
            for name, value in list(getattr(thing, "__dict__", {}).items()):
                label = "%s.%s" % (type(thing).__name__, name)
                if isinstance(unwrapped(value), types.FunctionType):
                    self._tell(self._patched, label, places(value))
                elif thing is config.hook and name.startswith("pytest_"):
                    files = places(value) + places(getattr(value, "_hookexec", value))
                    if not self._pluggy.issuperset(files):
                        self._tell(self._patched, label, files)
        for finder in self._in_front():
            self._tell(self._patched, "an import hook", places(finder))
        for label, hook in (("sys.settrace", sys.gettrace()), ("sys.setprofile", sys.getprofile())):
            if hook is not None:
                self._tell(self._patched, label, places(hook))

    def _in_front(self):
        """Import hooks that are asked before the interpreter's own. What stands behind them is asked only for
        what they do not find."""
        for now, own in zip((list(sys.meta_path), list(sys.path_hooks)), self._finders):
            is_own = [any(finder is known for known in own) for finder in now]
            while is_own and not is_own[-1]:
                is_own.pop()
            for finder, known in zip(now, is_own):
                if not known:
                    yield finder

    def _inside(self, module):
        """The file of a module, where it is in the work directory."""
        if not isinstance(module, types.ModuleType):
            return None
        known = vars(module)
        spec = known.get("__spec__")
        for file in (known.get("__file__"), getattr(spec, "origin", None)):
            if isinstance(file, str) and file.startswith(self._graded):
                return file
        try:
            folders = list(known.get("__path__") or ())
        except Exception:  # A namespace package whose parent could not be imported.
            folders = []
        for folder in folders:
            if isinstance(folder, str) and (folder + os.sep).startswith(self._graded):
                return folder
        return None

    def _look_at_modules(self):
        """Modules that the environment provides and that came from elsewhere, and what the graded code
        has put into them."""
        everything = list(sys.modules.items())
        graded = {key for key, module in everything if self._inside(module) is not None}
        for key, module in everything:
            top = key.split(".", 1)[0]
            if module is None:
                continue
            if key in self._helpers:
                self._look_at_helper(key, module)
            if top not in self._provided:
                continue
            file = self._inside(module)
            if file is not None:
                self._tell(self._replaced, key, [file])
            elif key == top and isinstance(module, types.ModuleType):
                known = vars(module)
                loader = known.get("__loader__")
                named = known.get("__file__") or known.get("__path__") is not None
                if not named and loader is None:
                    self._tell(self._replaced, key, [""])
            elif key == top:
                self._tell(self._replaced, key, places(module))
                continue
            if file is None and isinstance(module, types.ModuleType):
                self._look_into(key, module, graded)

    def _look_at_helper(self, key, module):
        """A module that lies among the tests: it comes from its file, and so do its functions."""
        self._tell(self._replaced, key, places(module))
        if not isinstance(module, types.ModuleType):
            return
        file = vars(module).get("__file__")
        if not isinstance(file, str):
            return
        codes = self._codes(key, file)
        for name in self._shadows(module, codes):
            self._tell(self._replaced, key + "." + text(name), places(vars(module)[name]))
        names = {code.co_name for code in codes}
        holders = [(key, module)]
        for name, value in list(vars(module).items()):
            if isinstance(value, type) and value.__module__ == key:
                holders.append((key + "." + text(name), value))
        for label, holder in holders:
            for name, value in list(vars(holder).items()):
                value = unwrapped(value)
                if not isinstance(value, types.FunctionType) or name not in names:
                    continue
                if value.__code__.co_filename.startswith(self._graded) and value.__code__.co_filename != file:
                    self._tell(self._replaced, label + "." + text(name), places(value))

    def _shadows(self, module, codes):
        """Names of builtins that a module has and that no line of it sets."""
        found = (vars(module).keys() & self._builtins.keys()) - OF_EVERY_MODULE
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

    def _look_into(self, key, module, graded):
        """Names of a module of the environment that the graded code has taken."""
        known = vars(module)
        file = known.get("__file__")
        for value in list(known.values()):
            # Methods of its classes are nobody's but its own.
            if isinstance(value, type) and value.__module__ == key:
                for name, method in list(vars(value).items()):
                    if type(method) in WRAPPERS:
                        method = unwrapped(method)
                    if type(method) is types.FunctionType:
                        if method.__code__.co_filename.startswith(self._graded):
                            label = "%s.%s.%s" % (key, value.__name__, text(name))
                            if label not in EXTENSIONS:
                                self._tell(self._replaced, label, places(method))
        standard = not isinstance(file, str) or (
            file.startswith(self._library) and "-packages" + os.sep not in file
        )
        for name, value in list(known.items()):
            kind = type(value)
            if kind is types.FunctionType:
                if not value.__code__.co_filename.startswith(self._graded):
                    given = list(value.__defaults__ or ()) + list((value.__kwdefaults__ or {}).values())
                    modules = [getattr(one, "__module__", None) or type(one).__module__ for one in given]
                    if any(isinstance(name, str) and name in graded for name in modules):
                        self._tell(self._replaced, key + "." + text(name), [""])
                    continue
                if standard and (key == "sys" or name[:1] == "_" or name in HANDLERS):
                    continue
            elif standard:
                continue
            else:
                module = (value if isinstance(value, type) else kind).__module__
                if not isinstance(module, str) or module not in graded:
                    continue
            if not self._imports(key, file, graded):
                self._tell(self._replaced, key + "." + text(name), places(value))

    def _imports(self, key, file, graded):
        """Whether a module of the environment itself names one of the graded code."""
        tops = {name.split(".", 1)[0] for name in graded}
        codes = self._codes(key, file) if isinstance(file, str) else []
        return any(name.split(".", 1)[0] in tops for code in codes for name in code.co_names)

    def _tell(self, where, name, files):
        for file in files:
            if len(where) < MOST:
                where[text(name), file] = True
            elif (text(name), file) not in where:
                where["more", ""] = True

    def told(self):
        pairs = lambda found: [[name, file] for name, file in found]
        return {
            "plugins": pairs(self._plugins),
            "patched": pairs(self._patched),
            "foreign": pairs(self._foreign),
            "swapped": pairs(self._swapped),
            "moved": [name for name, _ in self._moved],
            "replaced": pairs(self._replaced),
            "readers": pairs(self._readers),
            "swallowed": [name for name, _ in self._swallowed],
            "path": [text(entry) for entry in self._path],
            "compiled": self._compiled,
        }
