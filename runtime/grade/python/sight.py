"""Detects what code under test changes inside the interpreter: functions and classes of pytest, pluggy
and unittest, builtins, hooks, plugins, test functions, modules. This module prevents nothing; the grader evaluates
its observations. It is loaded before any graded code, and everything that it calls is bound by then, so it looks up
nothing in a module of the environment while graded code runs. Runs on Python 3.6 and later.
"""

import ast
import builtins
import dis
import functools
import gc
import glob
import hashlib
import importlib.machinery
import inspect
import io
import linecache
import operator
import os
import pathlib
import signal
import sys
import threading
import time
import tokenize
import traceback
import types
import unittest
import weakref
import zipimport

import pytest

try:
    import mmap
except ImportError:
    mmap = None

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
# Classes that find and load modules in folders and archives.
IMPORTERS = (
    importlib.machinery.FileFinder,
    importlib.machinery.SourceFileLoader,
    importlib.machinery.SourcelessFileLoader,
    importlib.machinery.ExtensionFileLoader,
    zipimport.zipimporter,
)
WRAPPERS = (staticmethod, classmethod, property)
# Hooks that determine a test's reported result. They are checked after each phase.
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
# A test whose code contains one of these names may expect an assertion to fail.
CATCHING = frozenset(
    ("AssertionError", "Exception", "BaseException", "failureException", "raises", "suppress")
    + ("assertRaises", "assertRaisesRegex", "assertRaisesRegexp", "subTest", "subtests")
)
# Parts of the names of functions and context managers that catch exceptions.
CATCHERS = ("raise", "catch", "suppress", "except", "ignor", "fail", "warn", "expect")
# Exceptions that end a loop.
ENDINGS = (StopIteration, StopAsyncIteration, GeneratorExit)
ASYNCHRONOUS = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
# Functions that show a stack and read the callers' source lines. They are bound here, before any graded code runs,
# and compared by identity, because any code can be compiled with their names.
SHOWING_CODE = [f.__code__ for f in (inspect.stack, traceback.format_stack, traceback.print_stack)]
SHOWING = frozenset(map(id, SHOWING_CODE))
GETLINE = linecache.getline.__code__
# Standard library functions that return any attribute of an object.
GIVING = ("getmembers", "_getmembers", "getmembers_static", "get_field")
FINALIZE = weakref.finalize.__call__.__code__
# Functions that open a file.
OPENERS = ("open", "open_code", "FileIO", "get_data", "system", "link", "symlink", "rename")
LINES_CODE = [f.__code__ for f in (linecache.getlines, linecache.updatecache)]
LINES = frozenset(map(id, LINES_CODE))
# Timer signals: their handlers can run in the middle of any test.
TIMERS = tuple(
    getattr(signal, name) for name in ("SIGALRM", "SIGVTALRM", "SIGPROF") if hasattr(signal, name)
)
# Read the attributes of a class itself, even if its metaclass overrides access.
NAME_OF = type.__dict__["__name__"].__get__
DICT_OF = type.__dict__["__dict__"].__get__
MRO_OF = type.__dict__["__mro__"].__get__
# Attributes that pluggy calls.
CALLED = ("_inner_hookexec", "_hookexec")
# Attributes that pytest itself sets on a test although its class has the same attribute.
SET_BY_PYTEST = frozenset(("_obj", "_instance", "_request", "funcargs", "fixturenames", "keywords", "stash", "_store"))
# Size and number of the records that forked processes write to shared memory for their parent.
SLOT, SLOTS = 512, 64
READING = os.O_RDONLY | os.O_CLOEXEC
# Separators of words in a command line, which may contain shell patterns.
WORDS = str.maketrans(dict.fromkeys("\"'`;|&<>()=", " "))
# Names that indicate that code starts further interpreters, for which there is no audit event.
SHARING = frozenset(("multiprocessing", "ProcessPoolExecutor", "get_context", "Process"))
# Audit events for accessing frames and objects, and the name that code uses for each.
SEARCHED = {
    "sys._getframe": "_getframe",
    "sys._current_frames": "_current_frames",
    "gc.get_objects": "get_objects",
    "gc.get_referrers": "get_referrers",
    "gc.get_referents": "get_referents",
    "tb_frame": "tb_frame",
    "gi_frame": "gi_frame",
    "cr_frame": "cr_frame",
    "ag_frame": "ag_frame",
    "f_code": "f_code",
    "__code__": "__code__",
}
SEARCHING = frozenset(name for name in SEARCHED if "." in name) | {"object.__getattr__"}
# Audit events for starting programs.
STARTING = frozenset(("subprocess.Popen", "os.system", "os.posix_spawn", "os.exec"))
# Environment variables that determine which programs, libraries and modules a started program finds.
FINDING = frozenset(("PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "BASH_ENV", "ENV", "NODE_OPTIONS", "PERL5OPT", "RUBYOPT"))
FINDING |= frozenset("PYTHON" + name for name in ("PATH", "HOME", "OPTIMIZE", "STARTUP", "USERBASE", "PYCACHEPREFIX", "INSPECT"))
FINDING |= frozenset(("PYTEST_ADDOPTS", "PYTEST_PLUGINS"))
# Programs that run or read tests without getting their names.
RUNNERS = frozenset(("pytest", "py.test", "unittest", "nose2", "coverage", "tox", "nox", "git", "hg", "multiprocessing"))
# Audit events for giving a file a further or a new name.
MOVING = ("os.link", "os.symlink", "os.rename")
# Audit events for listing a folder.
LISTING = ("os.listdir", "os.scandir")
PATH_LIKE = os.PathLike
PURE_PATH, PATH_TEXT = pathlib.PurePath, pathlib.PurePath.__str__
WRITING = frozenset("wax+")
# Programs that read everything below the folder that they start in.
SEARCHERS = ("grep", "egrep", "fgrep", "rg", "ag", "ack", "tar", "zip", "rsync", "cpio", "find")
SWALLOWED = 4  # The tool id for `sys.monitoring`, which is not one of the predefined ids.
# Instructions that create a function.
FUNCTION = types.FunctionType
IDLE = frozenset(("CACHE", "EXTENDED_ARG", "NOP", "RESUME"))
EXTENDED_ARG, OPERATIONS = dis.EXTENDED_ARG, tuple(dis.opname)
MAKES_FUNCTION = ("MAKE_FUNCTION", "SET_FUNCTION_ATTRIBUTE")
# Types of callables that can replace a function without containing any code.
REPLACING = (functools.partial, type("".join), type(iter("").__next__), type(operator.itemgetter(0)), bool)
# Types of the data in which a test module stores expectations.
DATA = frozenset((list, tuple, dict, set, frozenset, str, bytes, bytearray, int, float, complex))
# Number of frames between the function that answers a question and the one that asks it (`asking.py`).
ASKED = 3 if hasattr(sys, "addaudithook") else 2
# The name, in pytest's assertion rewriting module, of the function that each test calls when it starts.
STARTS = "_starts"
# Names that every module has, including the builtins module.
OF_EVERY_MODULE = frozenset(("__name__", "__doc__", "__package__", "__loader__", "__spec__"))
# Kinds of observations. `failed` lists the recorder's hooks that raised an exception, `forked` the tests that ran
# in a forked process.
KINDS = ("plugins", "patched", "foreign", "swapped", "moved", "replaced", "readers", "swallowed") + (
    "caught",
    "failed",
    "forked",
)
MAX_ENTRIES = 1000  # Maximum length of each list. A further entry says that the list was truncated.
SHARE = 50  # Checks between tests take at most 1/50 of the time.


def is_class(value):
    # Unlike `type()`, `isinstance` believes `__class__`, which `list[int]` forwards to `list` before Python 3.11.
    return issubclass(type(value), type)


def text(value):
    return str(value).encode("utf-8", "backslashreplace").decode("utf-8")


def identity_of_processes(stat):
    try:
        return stat("/proc")
    except OSError:
        return None


def unwrapped(value):
    if isinstance(value, (staticmethod, classmethod, types.MethodType)):
        value = value.__func__
    if isinstance(value, property):
        value = value.fget
    return value


def state(value):
    """Returns the parts of a function that determine its behavior."""
    if type(value) is not FUNCTION:
        value = unwrapped(value)
    if isinstance(value, FUNCTION):
        return value, value.__code__, value.__defaults__, value.__kwdefaults__
    return (value,)


def inner(code):
    """Returns a code object and all code objects inside it."""
    pending, found = [code], []
    while pending:
        code = pending.pop()
        if isinstance(code, types.CodeType):
            found.append(code)
            pending.extend(code.co_consts)
    return found


def add_starts(tree):
    """Adds a call to the start of each test function if pytest rewrote the module's assertions."""
    pending = list(tree.body)
    if not any(name.asname == "@pytest_ar" for node in pending if isinstance(node, ast.Import) for name in node.names):
        return  # Pytest does not rewrite this module's assertions.
    while pending:
        node = pending.pop()
        if isinstance(node, ast.ClassDef):
            pending.extend(node.body)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test"):
            first = node.body[0]
            at = 1 if isinstance(first, ast.Expr) and type(first.value).__name__ in ("Constant", "Str") else 0
            near = node.body[at] if at < len(node.body) else first
            module = ast.Name("@pytest_ar", ast.Load())
            function = ast.Attribute(module, STARTS, ast.Load())
            call = ast.Call(function, [], [])
            told = ast.Expr(call)
            for part in (module, function, call, told):
                part.lineno, part.col_offset = near.lineno, near.col_offset
                part.end_lineno, part.end_col_offset = near.lineno, near.col_offset
            node.body.insert(at, told)


def called(function, *arguments):
    return function(*arguments)


def same(one, other):
    return len(one) == len(other) and all(map(operator.is_, one, other))


# Code of functions that this file installs in classes of pytest and unittest.
OWN_CODES = set()


def places(value):
    """Returns the files that define a value, based on its compiled code. `__module__` is not reliable, because any
    code can set it. A forged file name must agree with the module that the code runs in."""
    value = unwrapped(value)
    if isinstance(value, types.ModuleType):
        return [text(vars(value).get("__file__") or "")]
    if isinstance(value, types.FunctionType):
        file = value.__code__.co_filename
        module = value.__globals__.get("__file__")
        if not file.startswith("/"):
            return [text(module or file)]
        return sorted({text(file), text(module)}) if isinstance(module, str) else [text(file)]
    holder = value if is_class(value) else type(value)
    found = set()
    for base in MRO_OF(holder)[:-1]:
        for member in list(DICT_OF(base).values()):
            member = unwrapped(member)
            if isinstance(member, types.FunctionType) and member.__code__ not in OWN_CODES:
                file = text(member.__code__.co_filename)
                if file.startswith("/"):
                    found.add(file)
    if not found:
        name = DICT_OF(holder).get("__module__")
        module = sys.modules.get(name) if isinstance(name, str) else None
        found.add(text(getattr(module, "__file__", None) or ""))
    return sorted(found)


def holders():
    """Yields the modules of pytest, pluggy, unittest and the import system, and the classes that they define."""
    for key, module in list(sys.modules.items()):
        if isinstance(module, types.ModuleType) and (key.startswith(ENGINE) or key in ENGINES):
            yield key, module
            for value in list(vars(module).values()):
                if is_class(value) and value.__module__ == key:
                    yield key + "." + value.__qualname__, value


def instructions(code):
    """Returns the name and argument of each instruction that has an effect. `dis` also computes lines, jumps
    and argument values, which takes twenty times as long and would make up a quarter of a grading."""
    found, extended, raw = [], 0, code.co_code
    for operation, argument in zip(raw[::2], raw[1::2]):
        if operation == EXTENDED_ARG:
            extended = (extended | argument) << 8
            continue
        name = OPERATIONS[operation]
        if name not in IDLE:
            found.append((name, extended | argument))
        extended = 0
    return found


def defined(code, kind):
    """Returns the name and code of each function or class that the code of a module or class defines exactly once
    and without a decorator."""
    stores, found, lines = {}, {}, instructions(code)
    for at, (operation, argument) in enumerate(lines):
        if operation not in ("STORE_NAME", "STORE_GLOBAL"):
            continue
        stored = code.co_names[argument]
        stores[stored] = stores.get(stored, 0) + 1
        before = lines[max(0, at - 12) : at]
        if kind == "def" and before and before[-1][0] in MAKES_FUNCTION:
            made = [code.co_consts[argument] for operation, argument in before if operation == "LOAD_CONST"]
            made = [one for one in made if isinstance(one, types.CodeType)]
            if made and made[-1].co_name == stored:
                found[stored] = made[-1]
        if kind == "class" and before and before[-1][0].startswith(("CALL", "PRECALL")):
            made = [one for one in code.co_consts if isinstance(one, types.CodeType) and one.co_name == stored]
            if len(made) == 1:
                found[stored] = made[0]
    return {name: made for name, made in found.items() if stores[name] == 1}


def introduced(code):
    """Returns the names that a module's code sets exactly once, either by a definition (with or without a
    decorator) or by an import under the same name. For an import, the value is the name of the other module."""
    made = {one.co_name for one in code.co_consts if isinstance(one, types.CodeType)}
    found, stores, module, given = {}, {}, None, None
    for operation, argument in instructions(code):
        if operation == "IMPORT_NAME":
            module = code.co_names[argument]
        if operation in ("STORE_NAME", "STORE_GLOBAL"):
            stored = code.co_names[argument]
            stores[stored] = stores.get(stored, 0) + 1
            if stored in made:
                found[stored] = None
            elif given == stored:
                found[stored] = module
        given = code.co_names[argument] if operation == "IMPORT_FROM" else None
    return {name: module for name, module in found.items() if stores[name] == 1}


class Sight:
    def __init__(self, root, order, early, openings, answer, ask):
        self._root = root + os.sep
        self._work = os.getcwd() + os.sep
        self._graded = (self._root, self._work)
        if order["submitted"] is not None:
            self._graded += (order["submitted"]["folder"].rstrip(os.sep) + os.sep,)
        self._library = os.path.dirname(os.__file__) + os.sep
        self._remember_places(order["path"])
        self._provided = frozenset(order["provided"])
        self._checks = frozenset(order["sees"])
        self._known = frozenset(order["loaded"])
        self._early = early
        self._found_in = {}
        self._data = order["data"]
        self._watch = {os.path.join(self._work, name): name for name in order["watch"]}
        self._open, self._read, self._close = os.open, os.read, os.close
        self._sha256, self._now, self._pid = hashlib.sha256, time.perf_counter, os.getpid
        self._bytes, self._text, self._encoding_of = io.BytesIO, io.TextIOWrapper, tokenize.detect_encoding
        self._owner = os.getpid()
        self._shared = mmap.mmap(-1, SLOT * SLOTS) if mmap is not None and "forks" in self._checks else None
        self._lists = {kind: {} for kind in KINDS}
        self._running, self._caught, self._is_in_call, self._current = None, False, False, None
        self._compiled = {}
        self._genuine = {}
        self._path = []
        self._frame_of, self._unseen, self._kinds = sys._getframe, called, {}
        self._hash_compiled_tests(answer, ask)
        self._failing = False
        self._watch_assertions(answer, ask)
        self._files_of_tests, self._copies = {}, {}
        self._hide_lines_of_tests(answer, ask)
        self._watch_modules_of_tests(answer, ask)
        self._watch_test_starts(answer, ask)
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
        self._tests, self._hooks, self._functions = {}, None, {}
        self._config = self._session = self._canaries = self._manager = None
        self._last = self._cost = 0.0
        self._written, self._engine_files = {}, set()
        for key in early:
            file = self._inside(sys.modules.get(key))
            if file and key not in self._known:
                self._report("replaced", key, [file])
        self._remember_engine()
        self._remember_modules()
        self._openings = openings
        self._opened, self._is_moved, self._expands = set(), False, False
        # Whether tests started any program, a program that may read tests, or such a program outside a test's call.
        self._started = self._may_read = self._serves = False
        self._finding, self._environ = {}, os.environ
        self._initial = dict(os.environ)
        if order["pythonpath"] is not None:
            self._initial["PYTHONPATH"] = order["pythonpath"]
        # Data files that the tests read, and data files that code under test read on its own.
        self._data_of_tests, self._data_taken = set(), {}
        self._naming, self._exchanging = {}, None
        self._opened_in_forks = {}
        self._watch_readers(frozenset(order["folders"]))
        self._watch_exceptions(answer, ask)
        self._remember_watchers()

    def _remember_places(self, path):
        """Records where the environment's code is. Other code outside the work directory was created during the
        run."""
        own = os.path.dirname(os.path.abspath(__file__))
        places = [own, self._library, sys.prefix, sys.exec_prefix, sys.base_prefix]
        places += [entry for entry in path if entry.startswith("/")]
        both = {one.rstrip(os.sep) + os.sep for place in places for one in (place, os.path.realpath(place))}
        self._places_of_environment = tuple(place for place in both if place != os.sep and not self._root.startswith(place))
        hooks = getattr(sys.modules.get("pluggy"), "__file__", None)
        self._hook_folders = (own + os.sep, (os.path.dirname(hooks) if hooks else own) + os.sep)

    def accept_import(self):
        """Accepts the import functions that the grader itself replaced after the initial snapshot."""
        self._builtins["__import__"] = builtins.__import__
        own = ("importlib", "import_module")
        for at, (label, holder, name, _, _) in enumerate(self._bindings):
            if (label, name) == own:
                value = vars(holder)[name]
                self._bindings[at] = (label, holder, name, value, state(value))

    # The code that is compiled as a test is hashed, whatever content the file has before and after.

    def _hash_compiled_tests(self, answer, ask):
        rewrite = sys.modules.get("_pytest.assertion.rewrite")
        original = getattr(rewrite, "_rewrite_test", None)
        if original is None:
            return

        def compiled(arguments):
            paths = [os.path.abspath(str(a)) for a in arguments if isinstance(a, (str, os.PathLike))]
            name = self._watch.get(paths[0]) if paths else None
            # Any code can compile text under a test's name. Only code that pytest compiles becomes a test.
            if name is None or self._frame_of(ASKED + 1).f_code.co_filename not in self._engine_files:
                return original(*arguments)
            before = self.hash(paths[0])
            result = original(*arguments)
            after = self.hash(paths[0])
            self._compiled.setdefault(name, []).append(before if before == after else None)
            code = next((part for part in result if isinstance(part, types.CodeType)), None)
            self._genuine.setdefault(paths[0], []).extend(inner(code))
            # Report earlier openings now, so that later ones are not confused with the opening by pytest.
            self.check_openings()
            return result

        answer("compiled", compiled)
        rewrite._rewrite_test = lambda *arguments: ask("compiled", arguments)

    # Code under test can find functions, marks and tables of tests through a test module.

    def _watch_modules_of_tests(self, answer, ask):
        """Gives each test module a class that reports attribute access, before the module's code runs."""
        hook = getattr(sys.modules.get("_pytest.assertion.rewrite"), "AssertionRewritingHook", None)
        original = None if hook is None else vars(hook).get("exec_module")
        if original is None or "readers" not in self._checks:
            return
        frame_of, get, every = sys._getframe, types.ModuleType.__getattribute__, types.ModuleType.__dir__
        names = types.ModuleType.__dict__["__dict__"].__get__
        answer("through", self._check_module_access)

        class Tests(types.ModuleType):
            def __getattribute__(module, name):
                value = get(module, name)
                if type(name) is not str:
                    return value
                is_data = type(value) in DATA and name[:2] != "__"
                if is_data or name in ("__dict__", "__spec__", "__loader__") or name[:4] in ("test", "Test"):
                    frame = frame_of(1)
                    # Annotations are resolved in the dictionary of the module that a class names.
                    if name != "__dict__" or "__module__" not in frame.f_code.co_names:
                        ask("through", names(module).get("__name__"), frame, True)
                return value

            def __dir__(module):
                ask("through", names(module).get("__name__"), frame_of(1), False)
                return every(module)

        Tests.__name__ = Tests.__qualname__ = "module"
        Tests.__module__ = "builtins"
        files = frozenset(self._watch)

        def exec_module(loader, module):
            if type(module) is types.ModuleType and vars(module).get("__file__") in files:
                module.__class__ = Tests
            return original(loader, module)

        OWN_CODES.add(exec_module.__code__)
        hook.exec_module = exec_module

    def _check_module_access(self, name, frame, is_near):
        """Reports code that searches a test module. Libraries may read a class's module to resolve annotations, so
        only direct access by code under test counts for that."""
        try:
            if is_near and not self._is_code_under_test(frame.f_code.co_filename):
                return
            if frame.f_code.co_filename in self._engine_files:
                return
            self._report_asker("the module %s" % name, frame)
        except Exception as error:
            self.failed("checking access to a test module", error)

    def _report_asker(self, what, frame):
        """Reports code under test that accesses a part of the tests."""
        asker = self._asker(frame)
        if asker is not None:
            self._report("readers", what, [asker])

    def _asker(self, frame):
        """Like `_reader`, but ignores callbacks and threads, which may belong to pytest."""
        reader = self._reader(frame, True)
        return None if reader in ("a callback", "a thread") else reader

    def _is_elsewhere(self, file):
        """Whether code is outside the environment and the work directory, such as a module that code under test
        wrote."""
        return file[:1] == "/" and not file.startswith(self._places_of_environment + self._graded)

    def _is_code_under_test(self, file):
        return file.startswith(self._graded) and file not in self._watch and "-packages" + os.sep not in file

    # A stack that code under test prints or logs shows the running line. In a canary's run, this line has the mistake.
    # The line cache never keeps lines of a test, because code under test could read other lines there without opening
    # the file.

    def _hide_lines_of_tests(self, answer, ask):
        original = linecache.updatecache

        def lines(filename):
            frame = self._frame_of(ASKED)
            # Only answer the line cache. Otherwise the answer would reveal which run is a canary.
            if frame.f_code is not updatecache.__code__:
                return None
            try:
                return self._unseen(self._lines_for, filename, frame.f_back)
            except Exception as error:
                self.failed("showing lines of a test", error)
                return None

        answer("lines", lines)

        def updatecache(filename, *given, **named):
            lines = ask("lines", filename)
            return original(filename, *given, **named) if lines is None else lines

        linecache.updatecache = updatecache

    def _lines_for(self, filename, frame):
        """Returns the lines of a test file for the caller of the line cache; `None` for other files. If code under
        test shows its stack or a running line, the other lines are blank. Any other access by code under test counts
        as a read."""
        name = self._test_named(filename)
        if name is None:
            return None
        lines = None if self._canaries is None else self._canaries.lines(filename)
        lines = self._copy(filename) if lines is None else lines
        if lines is None:
            return None
        asker = None if frame is None else frame.f_back
        if asker is not None and asker.f_code is GETLINE:
            number = asker.f_locals.get("lineno")
            if type(number) is int and self._is_running(filename, number, asker):
                return self._shown_lines(lines, (number,))
        reader = self._reader(frame) if "readers" in self._checks else None
        if reader is None:
            return list(lines)
        running = self._running_lines(filename, frame)
        if running is None:
            self._report("readers", name, [reader])
            return list(lines)
        return self._shown_lines(lines, running)

    @staticmethod
    def _shown_lines(lines, numbers):
        shown = ["\n"] * len(lines)
        for number in numbers:
            if 0 < number <= len(lines):
                shown[number - 1] = lines[number - 1]
        return shown

    @staticmethod
    def _is_running(filename, number, frame):
        while frame is not None:
            if frame.f_lineno == number and frame.f_code.co_filename == filename:
                return True
            frame = frame.f_back
        return False

    def _test_named(self, filename):
        """Returns the name of the test file at a path; `None` for other files."""
        if type(filename) is not str:
            return None
        if filename in self._watch:
            return self._watch[filename] if filename.endswith(".py") else None
        # Most other names are names of modules and code without a file.
        return self._files_of_tests.get(self._identity(filename)) if filename[-3:] == ".py" else None

    def _copy(self, filename):
        """Returns the lines of a test file; `None` if the file cannot be read. This process opens the file only once,
        so that an opening by another program is not mistaken for its own."""
        try:
            status = self._stat(filename)
        except OSError:
            return None
        version = status.st_dev, status.st_ino, status.st_size, status.st_mtime
        known = self._copies.get(filename)
        if known is None or known[0] != version:
            text = self._content(filename)
            self.check_openings()
            if text is None:
                return None
            known = self._copies[filename] = version, self._decoded(text)
        return known[1]

    def _decoded(self, text):
        """Returns the lines of a source file, like `linecache`."""
        try:
            encoding = self._encoding_of(self._bytes(text).readline)[0]
            lines = self._text(self._bytes(text), encoding, line_buffering=True).readlines()
        except (UnicodeDecodeError, SyntaxError, LookupError):
            return ()
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        return tuple(lines)

    def _running_lines(self, filename, frame):
        """Returns the numbers of a file's running lines if the line cache is used on behalf of a function that shows a
        stack. A stack with more lines of context does not count."""
        shown, numbers, pending = False, set(), [frame]
        while pending:
            frame = pending.pop()
            while frame is not None:
                code = frame.f_code
                if code.co_filename == filename and frame.f_lineno is not None:
                    numbers.add(frame.f_lineno)
                if not shown and id(code) in SHOWING:
                    shown, known = True, frame.f_locals
                    context, given = known.get("context", 1), known.get("f")
                    if type(context) is not int or context > 1:
                        return None
                    # The stack may be that of another thread.
                    pending.append(given if type(given) is types.FrameType else None)
                frame = frame.f_back
        return numbers if shown else None

    # Code under test could run a test with an object that records comparisons, to learn what the test expects.

    def _watch_test_starts(self, answer, ask):
        """Makes each test function report its start. Adds a statement for this when pytest rewrites the function's
        assertions."""
        rewrite = sys.modules.get("_pytest.assertion.rewrite")
        rewriter = getattr(rewrite, "AssertionRewriter", None)
        if rewriter is None or "readers" not in self._checks:
            return
        original, files, add = rewriter.run, frozenset(self._watch), add_starts

        def run(visitor, tree):
            result = original(visitor, tree)
            if str(visitor.module_path) in files:
                add(tree)
            return result

        answer("starts", self._check_start)
        rewriter.run = run
        setattr(rewrite, STARTS, lambda: ask("starts"))

    def _check_start(self):
        """Handles the start of a test function. A decorator of the running test may call that test's own function."""
        try:
            frame = self._frame_of(ASKED + 1)
            code = frame.f_code
            if code.co_filename in self._watch and (code.co_filename, code.co_name) != self._current:
                who = self._on_behalf_of(frame.f_back)
                if who is not None:
                    self._report("readers", "%s, by running it" % code.co_name, [who])
        except Exception as error:
            self.failed("checking who starts a test", error)

    def _on_behalf_of(self, frame):
        """Returns the file of the code under test that called a function without a test in between. Code without a
        file also counts."""
        while frame is not None:
            file = frame.f_code.co_filename
            if file in self._watch:
                return None
            if self._is_code_under_test(file) or self._is_elsewhere(file):
                return self._short(file)
            if file[:1] != "/" and not file.startswith("<frozen ") and not self._is_of_module(frame.f_globals):
                return "code without a file"
            frame = frame.f_back
        return None

    # Only pytest may call the recorder's hooks. Report other callers, which could forge a record or detect canaries.

    def check_caller(self):
        if self._is_in_call:
            self._report("patched", "a test that runs within another", [""])

    def check_reporter(self):
        # There are a hundred reports per second, and each check reads five frames.
        self._unseen(self._check_reporter)

    def _check_reporter(self):
        frame = self._frame_of(0)
        while frame is not None and frame.f_code.co_filename.startswith(self._hook_folders):
            frame = frame.f_back
        file = "" if frame is None else frame.f_code.co_filename
        if file in self._engine_files or file in self._watch:
            return
        if file[:1] != "/" or self._is_code_under_test(file) or self._is_standard(file) or self._is_elsewhere(file):
            self._report("patched", "the report of a test", [file])

    def call_ended(self):
        self._is_in_call, self._current = False, None

    # A failed assertion ends its test. Code under test can prevent that with a context manager or a caller that
    # swallows the exception, or by running the assertion in a thread.

    def _watch_assertions(self, answer, ask):
        rewrite = sys.modules.get("_pytest.assertion.rewrite")
        library = os.path.dirname(unittest.__file__) + os.sep
        frame_of = sys._getframe

        def failing(frame):
            while frame is not None and frame.f_code.co_filename.startswith(library):
                frame = frame.f_back
            self._handle_failing(frame)

        def stopped(frame):
            if not frame.f_code.co_filename.startswith(library):
                self._failing = True

        answer("failing", failing)
        answer("stopped", stopped)

        def seen(original):
            def seen(*given, **named):
                ask("failing", frame_of(1))
                return original(*given, **named)

            return seen

        # pytest explains failed comparisons with `_format_explanation`, and unittest with `_formatMessage`.
        if hasattr(rewrite, "_format_explanation"):
            rewrite._format_explanation = seen(rewrite._format_explanation)
        if hasattr(unittest.TestCase, "_formatMessage"):
            unittest.TestCase._formatMessage = seen(unittest.TestCase._formatMessage)

        stop = getattr(unittest.case, "_ShouldStop", None)
        if stop is not None:
            # If any code raises `_ShouldStop`, unittest ends the test without a failure.
            def raised(error, *given):
                ask("stopped", frame_of(1))

            unittest.case._ShouldStop = type("_ShouldStop", (stop,), {"__init__": raised})

    def _handle_failing(self, frame):
        if self._canaries is not None and self._canaries.current is not None:
            return  # A canary must fail, and the check below would read a file.
        asserting = frame
        while frame is not None:
            code = frame.f_code
            # Only the tests' own files may catch their exceptions.
            if code.co_filename in self._watch and not CATCHING.isdisjoint(self._names_in(code)):
                return
            frame = frame.f_back
        if asserting is not None and asserting.f_code.co_filename in self._watch:
            self._failing = True

    def _names_in(self, code):
        """Returns the names in a piece of code as written, without the names that pytest's rewriting adds."""
        for written in self._codes("", code.co_filename):
            if (written.co_name, written.co_firstlineno) == (code.co_name, code.co_firstlineno):
                return written.co_names
        return code.co_names

    def after_call(self, item, raised):
        """Reports a test that passed although one of its assertions failed or it raised an exception."""
        self._running = None
        self._started = self._may_read = False
        if raised or self._canaries.current is not None:
            return
        if self._failing:
            self._report("swallowed", item.nodeid, [""])
        elif self._caught:
            self._report("caught", item.nodeid, [""])

    # An exception in a test's own function also ends the test if the test cannot catch it. Python 3.12 and later.

    def _watch_exceptions(self, answer, ask):
        monitoring = getattr(sys, "monitoring", None)
        self._monitoring = None
        if monitoring is None or monitoring.get_tool(SWALLOWED) is not None:
            return
        files, knows = frozenset(self._watch), {}

        def raised(code, offset, error):
            if code.co_filename in files:
                ask("raised", code, error)

        def safely(code, error):
            try:
                if code is self._running:
                    look(code, error)
            except Exception as failure:
                self.failed("checking an exception of a test", failure)

        answer("raised", safely)

        def look(code, error):
            kind = type(error)
            if id(code) not in knows:
                knows[id(code)] = code, self._catches(code)
            # Ignore other exceptions, which stop a test from outside, unless the code under test defines them.
            if issubclass(kind, ENDINGS):
                return
            if not knows[id(code)][1] and (issubclass(kind, Exception) or self._is_graded(places(kind))):
                self._caught = True

        monitoring.use_tool_id(SWALLOWED, "proctor")
        monitoring.register_callback(SWALLOWED, monitoring.events.RAISE, raised)
        monitoring.set_events(SWALLOWED, monitoring.events.RAISE)
        self._monitoring = monitoring

    def _is_graded(self, files):
        return any(file.startswith(self._graded) and file not in self._watch for file in files)

    def _catches(self, code):
        """Whether a test's code can catch its exceptions, with an `except` clause or a function that catches them."""
        names = self._names_in(code)
        lowered = [name.lower() for name in names]
        if any(part in name for name in lowered for part in CATCHERS) or not CATCHING.isdisjoint(names):
            return True
        if code.co_flags & ASYNCHRONOUS:
            return True
        lines = [operation for operation, _ in instructions(code)]
        bare = ("PUSH_EXC_INFO", "POP_TOP")
        return bool({"CHECK_EXC_MATCH", "CHECK_EG_MATCH"}.intersection(lines)) or bare in zip(lines, lines[1:])

    # Code under test that reads the tests may return the expected values.

    def _watch_readers(self, folders):
        """Detects code that reads tests, from Python 3.8 on: in this process, in processes that it forked, and
        in programs that get a test's name. Files are compared by identity, not by name."""
        if not hasattr(sys, "addaudithook") or "readers" not in self._checks:
            return
        stat, frame_of, listed, limit, limit_to = os.stat, sys._getframe, os.listdir, sys.getrecursionlimit, sys.setrecursionlimit
        expand, real = glob.glob, os.path.realpath
        files, named, stems, names, around, data = {}, {}, {}, {}, {}, {}
        for name in self._data:
            try:
                found = stat(self._work + name)
                data[found.st_dev, found.st_ino] = name
            except OSError:
                pass
        for path, name in self._watch.items():
            if name.endswith(".py"):
                base = name.rpartition("/")[2]
                if base != "__init__.py":
                    stems[base[:-3]] = names[base] = name
                try:
                    found = stat(path)
                    if found.st_size:
                        files[found.st_dev, found.st_ino] = named[path] = name
                except OSError:
                    pass
        self._files_of_tests = files
        for path, name in named.items():
            self._openings.watch(path, name)
        if mmap is not None and files and "openings" in self._checks:
            # One byte of shared memory for each file, so that forked processes can record opened files.
            told = mmap.mmap(-1, len(files))
            self._opened_in_forks = {name: (told, at) for at, name in enumerate(sorted(set(named.values())))}
        for name in self._watch.values():
            while "/" in name:
                name = name.rpartition("/")[0]
                folders |= {name}
        processes = getattr(identity_of_processes(stat), "st_dev", None)
        for name in folders | {"."}:
            try:
                found = stat(self._work + name)
                around[found.st_dev, found.st_ino] = name
            except OSError:
                pass

        def plain(path):
            """Returns the text of a path of any string class, without calling the class's own methods."""
            if isinstance(path, bytes):
                path = bytes.__getitem__(path, slice(None)).decode("utf-8", "surrogateescape")
            return str.__str__(path) if isinstance(path, str) else None

        def identity(path, folder=None):
            try:
                found = stat(path) if folder is None else stat(path, dir_fd=folder)
            except (OSError, ValueError, OverflowError):
                return None
            return found.st_dev, found.st_ino

        def path_at(path):
            path = type(path).__fspath__(path) if isinstance(path, PATH_LIKE) else path
            return path if type(path) is int else plain(path)

        def test_at(path, found, is_raw):
            """Returns the test at a path or file descriptor. `found` is the identity of the file."""
            if path is None or type(path) is int:
                return files.get(found)
            if path.endswith(".pyc"):
                folder, _, base = path.rpartition("/")
                stem = base.split(".", 1)[0]
                source = "%s/%s.py" % (folder[: -len("/__pycache__")], stem)
                if folder.endswith("/__pycache__") and identity(source) is not None:
                    return files.get(identity(source))
                return stems.get(stem)
            name = files.get(found) or named.get(path) or named.get(self._work + path)
            if name is None and is_raw and not path.startswith("/"):
                # The path may be relative to any open folder, because the event does not include the folder.
                for folder in listed("/proc/self/fd"):
                    name = name or files.get(identity(path, int(folder)))
            return name

        def folder_at(path):
            """Returns the test folder at a path. The work directory does not count, because it also contains other
            files."""
            if type(path) is not int:
                path = "." if path is None else plain(path)
            name = None if path is None else around.get(identity(path))
            return None if name == "." else name

        def strings(value, depth=0):
            value_of = plain(value)
            if value_of is not None:
                yield value_of
            elif type(value) in (list, tuple) and depth < 3:
                for part in value:
                    for one in strings(part, depth + 1):
                        yield one
            elif isinstance(value, PATH_LIKE):
                # The object's value may change later. Only its current value counts.
                yield plain(type(value).__fspath__(value))

        def told_of(arguments, folder):
            """Yields the tests that a program's arguments identify: by name, by another name, by a pattern, or
            through their folder. For a program that searches files, the folder that it starts in also counts."""
            programs = [told.split(None, 1)[0].rpartition("/")[2] for told in strings(arguments) if told.strip()]
            if any(name in SEARCHERS for name in programs[:2]):
                yield around.get(identity(folder))
            for told in strings(arguments):
                for short, name in names.items():
                    if short in told:
                        yield name
                for word in told.translate(WORDS).split() if len(told) < 10000 else ():
                    if any(sign in word for sign in "*?["):
                        self._expands = True
                        try:
                            paths = expand(word)[:1000]
                        finally:
                            self._expands = False
                        for path in paths:
                            yield files.get(identity(path)) or around.get(identity(path))
                    elif "/" in word or word == ".":
                        yield files.get(identity(word)) or around.get(identity(word))

        looking, thread, function = set(), threading.get_ident, types.FunctionType

        def unseen(look, *arguments):
            """Reads frames without reporting the access. Each frame access raises an event, and a stack has a hundred
            frames."""
            me = thread()
            if me in looking:
                return look(*arguments)
            looking.add(me)
            try:
                return look(*arguments)
            finally:
                looking.discard(me)

        self._unseen = unseen

        def runs_tests(arguments):
            """Whether a program is a test runner or gets the name of a test module."""
            for told in strings(arguments):
                # If the program is outside the graded folders, only its name counts.
                told = told.rpartition("/")[2] if told[:1] == "/" and not told.startswith(self._graded) else told
                words = told.translate(WORDS).replace("/", " ").replace(".", " ").replace(",", " ").split()
                if any(word in RUNNERS or word in stems or word in ("test", "tests") for word in words):
                    return True
            return False

        def audit(event, arguments):
            if event == "os.chdir":
                # True from when code under test changes the working directory until a test itself changes it.
                self._is_moved = unseen(self._is_of_graded, frame_of(2))
                return
            if event == "open" or event in MOVING:
                path = arguments[0] if type(arguments[0]) is int else plain(arguments[0])
                found = None if path is None else identity(path)
                is_open = event == "open"
                if is_open and self._is_moved:
                    self._check_relative_path(path, identity)
                tests = [test_at(path, found, is_open and arguments[1] is None)]
                # Opening a compiled test does not open its source.
                if is_open and not (type(path) is str and path.endswith(".pyc")):
                    self._record_open(tests[0])
                if data and tests[0] is None:
                    mode = arguments[1] if is_open else None
                    if type(mode) is not str or WRITING.isdisjoint(mode):
                        name = data.get(found if path is not None else identity(path_at(arguments[0])))
                        if name is not None:
                            unseen(self._record_data_read, name, identity, frame_of(2))
                if is_open and found is not None and found[0] == processes and type(path) is str and real(path).endswith("/mem"):
                    # The memory contains everything that the tests expect.
                    tests.append("the memory of a process")
            elif event in STARTING:
                # Files that were opened before this point were not opened by the new program.
                self.check_openings()
                folder = plain(arguments[2]) if event == "subprocess.Popen" else None
                tests = list(told_of(arguments[:2], folder or "."))
                if unseen(self._is_of_test, frame_of(2)):
                    is_there = around.get(identity(folder), ".") != "." if folder else False
                    self._record_program(any(tests) or is_there or runs_tests(arguments[:2]))
            elif event in LISTING:
                unseen(self._check_listing, folder_at(arguments[0]), frame_of(2))
                return
            else:
                return
            for name in tests:
                reader = name and unseen(self._reader, frame_of(2))
                if reader:
                    self._report("readers", name, [reader])

        watched = frozenset(("open", "os.chdir", "os.putenv", "sys.setprofile") + MOVING + LISTING) | STARTING | SEARCHING

        def safely(event, arguments):
            if event not in watched:
                return
            # Return early: nine out of ten events are of this kind.
            if event == "object.__getattr__" and arguments[1] not in SEARCHED:
                return
            if event == "os.putenv":
                self._check_variable(plain(arguments[0]), plain(arguments[1]), frame_of(1))
                return
            if event == "sys.setprofile":
                if self._session is None:
                    self._check_profiler(frame_of(1))
                return
            if event in SEARCHING:
                name = arguments[1] if event == "object.__getattr__" else event
                if name == "__code__" and not (type(arguments[0]) is function and arguments[0].__name__[:4] == "test"):
                    return
                if thread() not in looking:
                    # `frame_of` also raises such an event.
                    if name == "__code__":
                        unseen(lambda: self._check_code_access(arguments[0], frame_of(3)))
                    else:
                        unseen(lambda: self._check_frame_access(SEARCHED[name], frame_of(3)))
                return
            try:
                try:
                    audit(event, arguments)
                except RecursionError:
                    # Code that has used up the recursion limit must not disable the check.
                    was = limit()
                    limit_to(was + 200)
                    try:
                        audit(event, arguments)
                    finally:
                        limit_to(was)
            except Exception as error:  # Continue, because an exception here would change the test's behavior.
                self.failed("checking reads on " + event, error)

        sys.addaudithook(safely)

    def _reader(self, frame, shows=False):
        """Returns the file of the code under test that caused an event; `None` if other code caused it. Returns a
        description for code without a file and for a thread of unknown origin. With `shows`, a function that shows
        a stack does not count."""
        if frame is not None and frame.f_globals is globals():
            return None  # The check of a test whose assertion failed.
        last = callee = None
        lines = shown = nowhere = drawn = is_called = called_back = False
        while frame is not None:
            code, last, known = frame.f_code, frame, frame.f_globals
            file = code.co_filename
            own, library, is_graded, is_elsewhere, asks = self._kinds.get(file) or self._kind_of(file)
            # Identity is reliable, because the lists above keep these objects alive.
            lines = lines or id(code) in LINES
            shown = shown or (shows and lines and id(code) in SHOWING)
            from_file = dict.get(known, "__file__")
            own = own and (from_file == file or from_file is None)
            nowhere = nowhere or (own and from_file is None)
            # The nearest code outside of all libraries is the cause, unless it contains no such call.
            if not is_called and known is not globals():
                called_back = called_back or self._is_callback(code, known)
                is_called = own or asks
                if own or (is_called and file in self._engine_files):
                    called_back = called_back or not self._calls(code, callee, own)
                callee = code
            drawn = drawn or (dict.get(known, "__name__") == "hypothesis.core" and self._is_of_module(known))
            if type(from_file) is str:
                is_test, _, is_in_graded, _, _ = self._kinds.get(from_file) or self._kind_of(from_file)
                if is_in_graded and not is_test:
                    # The code runs in a graded module, whatever its file name says.
                    file, library, is_graded = from_file, "-packages" + os.sep in from_file, True
            if not own and not library and (is_graded or is_elsewhere):
                if shown:
                    return None  # A log entry with a stack.
                return file[len(self._root) :] if file.startswith(self._root) else file
            if file[:1] != "/" and not self._is_of_module(known):
                nowhere = True
            frame = frame.f_back
        if nowhere and not shown and not drawn:
            return "code without a file"
        if called_back:
            return "a callback"
        bottom = last is not None and dict.get(last.f_globals, "__name__")
        return "a thread" if bottom == "threading" else None

    def _kind_of(self, file):
        """Classifies code by its file name. Returns whether the code belongs to a test, a library, the graded code, or
        neither the environment nor the work directory, and whether it is outside the standard library."""
        kind = self._kinds[file] = (
            file in self._watch,
            "-packages" + os.sep in file or file.startswith(self._library),
            file.startswith(self._graded),
            self._is_elsewhere(file),
            file[:1] == "/" and not self._is_standard(file),
        )
        return kind

    def _record_data_read(self, name, identity, frame):
        """Handles reads of the tests' data files. A file contains expectations if a test reads it and does not pass it
        to the code under test."""
        asker = self._asker(frame)
        if asker is None:
            if self._is_read_by_test(frame):
                self._data_of_tests.add(name)
        elif not self._is_handed_over(name, identity, frame):
            self._data_taken[name] = asker
        if name in self._data_taken and name in self._data_of_tests:
            self._report("readers", name, [self._data_taken[name]])

    def _is_read_by_test(self, frame):
        """Whether a test's own code reads a file, directly or through a library. Imports and tracebacks don't
        count."""
        while frame is not None:
            code = frame.f_code
            if code.co_filename[:1] != "/" or id(code) in LINES:
                return False
            if not self._is_standard(code.co_filename) and "-packages" + os.sep not in code.co_filename:
                return self._is_code_of_tests(code.co_filename)
            frame = frame.f_back
        return False

    def _is_code_of_tests(self, file):
        return file in self._watch and file.endswith(".py")

    def _is_handed_over(self, name, identity, frame):
        """Whether a test passed a file, its name or its folder to the code under test that it calls."""
        entered = None
        while frame is not None and not self._is_code_of_tests(frame.f_code.co_filename):
            if self._is_code_under_test(frame.f_code.co_filename):
                entered = frame
            frame = frame.f_back
        if frame is None or entered is None:
            return True  # It is not known whether a test called this code.
        whole, base = self._work + name, name.rpartition("/")[2]
        values = list(entered.f_locals.values())[:50]
        for depth in range(3):
            inside = []
            for value in values:
                if isinstance(value, (str, bytes, PURE_PATH)):
                    given = PATH_TEXT(value) if isinstance(value, PURE_PATH) else value
                    given = given.decode("utf-8", "replace") if isinstance(given, bytes) else str.__str__(given)
                    folder = self._work + given if given[:1] != "/" else given
                    if given.rpartition("/")[2] == base or whole.startswith(folder.rstrip("/") + "/") or identity(given) == identity(whole):
                        return True
                elif type(value) in (list, tuple, dict):
                    inside.extend(list(value)[:50])
                    inside.extend(list(value.values())[:50] if type(value) is dict else ())
                elif not isinstance(value, (type, types.ModuleType, types.FunctionType)):
                    try:
                        inside.extend(list(object.__getattribute__(value, "__dict__").values())[:50])
                    except (AttributeError, TypeError):
                        pass
            values = inside
        return False

    def _check_variable(self, name, value, frame):
        """Records that code under test changed where programs are found. This matters if a test starts a program."""
        try:
            if name not in FINDING:
                return
            if value == self._initial.get(name):
                self._finding.pop(name, None)
                return
            asker = self._asker(frame) if value else None
            if asker is not None:
                self._finding[name] = value, os.path.join(self._root, asker)
        except Exception as error:
            self.failed("checking environment variables", error)

    def _check_profiler(self, frame):
        """Reports a profiler that is active while test modules are loaded, because the profiler receives the modules'
        code with all expectations."""
        try:
            self._report_asker("the code of modules that are loaded, by a profiler", frame)
        except Exception as error:
            self.failed("checking a profiler", error)

    def _check_listing(self, name, frame):
        """Reports code under test that lists a test folder, because listing reveals test files, modules and data whose
        names the code does not know."""
        if name is None or self._expands or frame is None:
            return
        asking = frame.f_code.co_filename
        if not asking.startswith(self._graded) or "-packages" + os.sep in asking:
            if "importlib" in asking or dict.get(frame.f_globals, "__name__") == "pkg_resources":
                return  # Finding a module or a distribution lists the whole import path.
        self._report_asker("the names of files in %s" % name, frame)

    def _is_standard(self, file):
        return file.startswith(self._library) and "-packages" + os.sep not in file

    def _is_callback(self, code, known):
        """Whether the interpreter or an event loop calls this code later, without the code that requested it on
        the stack."""
        if code is FINALIZE:
            return True
        name = dict.get(known, "__name__")
        return name == "asyncio.events" and code.co_name == "_run" and self._is_of_module(known)

    @staticmethod
    def _calls(code, callee, own):
        """Whether code can have called the given standard library function by name, or opens files itself."""
        if callee is None:
            return own or any(name in part.co_names for part in inner(code) for name in OPENERS)
        name, file = callee.co_name, callee.co_filename
        if file[:1] != "/" or "importlib" in file or (name[:2] == "__" and name[-2:] == "__"):
            return True
        return any(name in part.co_names for part in inner(code))

    def _is_of_module(self, known):
        name = dict.get(known, "__name__")
        module = sys.modules.get(name) if type(name) is str else None
        return isinstance(module, types.ModuleType) and vars(module) is known

    # Test files that were opened without an audit event, by a program or a native library.

    def _record_program(self, may_read):
        """Handles a program that a test's own code starts, because environment variables that code under test changed
        affect the program."""
        self._started = True
        self._may_read = self._may_read or may_read
        self._serves = self._serves or (may_read and not self._is_in_call)
        for name, (value, file) in self._finding.items():
            # A test that sets the variable itself may include the previous value.
            if value in self._environ.get(name, ""):
                self._report("replaced", "the variable %s of a program that a test starts" % name, [file])

    def check_openings(self):
        """Reports test files that were opened, but not by this process or its forks. A program that a test
        started may open them if it gets the names of tests or runs tests."""
        if "openings" not in self._checks or self._pid() != self._owner:
            return
        try:
            found = self._openings.take() - self._opened
        except OSError as error:
            self.failed("watching for opened tests", error)
            found = set()
        self._opened.clear()
        for name in list(found):
            told, at = self._opened_in_forks.get(name, (b"\0", 0))
            if told[at]:
                told[at] = 0
                found.discard(name)
        if found and not (self._may_read or self._serves) and not self._start_interpreters():
            who = "a program that a test started" if self._started else "a program or a library"
            for name in found:
                self._report("readers", name, [who])

    def _start_interpreters(self):
        """Whether the tests' own code contains names that start further interpreters, which then import the tests."""
        codes = [code for codes in self._genuine.values() for code in codes]
        return any(not SHARING.isdisjoint(code.co_names) for code in codes)

    def _check_relative_path(self, path, identity):
        """Reports a test file that is opened by a relative name after code under test changed the working
        directory."""
        if path is None or path[:1] == "/":
            return
        meant = os.path.normpath(self._work + path)
        if any(meant.startswith(folder + os.sep) for folder in self._folders):
            known = identity(meant)
            if known is not None and identity(path) != known:
                self._report("moved", "the working directory, for %s" % path, [""])

    def _is_of_graded(self, frame):
        """Whether the nearest code outside the standard library is code under test."""
        while frame is not None:
            file = frame.f_code.co_filename
            if file[:1] == "/" and not self._is_standard(file):
                return self._is_code_under_test(file)
            frame = frame.f_back
        return False

    def _check_frame_access(self, name, frame):
        """Reports code that accesses its callers' frames or other objects by a name that the code computes or reads
        from data. Screening finds code that contains the name."""
        try:
            file = frame.f_code.co_filename
            if self._is_code_under_test(file):
                if not self._is_named(name, frame):
                    self._report("readers", "frames through %s, a computed name" % name, [self._short(file)])
            elif file[:1] != "/" and not file.startswith("<frozen "):
                self._report("readers", "frames through %s" % name, ["code without a file"])
        except Exception as error:
            self.failed("checking frame access by " + name, error)

    def _check_code_access(self, function, frame):
        """Reports code under test that gets a test's compiled code, directly or through `dis`. Other functions of the
        standard library only use the code's parameters and flags."""
        try:
            if frame.f_globals is self._exchanging:
                return
            asking, file = frame.f_code, function.__code__.co_filename
            if asking.co_filename in self._engine_files or file not in self._watch:
                return
            if self._is_standard(asking.co_filename) and asking.co_filename != dis.__file__ and asking.co_name not in GIVING:
                return
            reader = self._reader(frame)
            if reader:
                self._report("readers", "%s, the code of %s" % (self._watch[file], function.__name__), [reader])
        except Exception as error:
            self.failed("checking access to the code of a test", error)

    def _is_named(self, name, frame):
        """Whether the file that a piece of code claims contains this name. The result is cached for each code
        object."""
        code = frame.f_code
        known = self._naming.get((id(code), name))
        if known is None or known[0] is not code:
            # Code compiled from a string may claim the file. Screening reads only the content of the file.
            codes = self._codes("", code.co_filename)
            known = code, any(name in part.co_names or name in part.co_consts for part in codes)
            self._naming[id(code), name] = known
        return known[1]

    def _short(self, file):
        return file[len(self._root) :] if file.startswith(self._root) else file

    def _record_open(self, name):
        """Records a file that this process is about to open."""
        if name is None:
            return
        if self._pid() != self._owner:
            told, at = self._opened_in_forks.get(name, (None, 0))
            if told is not None:
                told[at] = 1
            return
        self.check_openings()
        self._opened.add(name)

    def _is_of_test(self, frame):
        """Whether a test's own code causes an event, rather than code under test that the test calls."""
        return self._reader(frame) is None and self._is_below_test(frame)

    def _is_below_test(self, frame):
        while frame is not None:
            if frame.f_code.co_filename in self._watch:
                return True
            frame = frame.f_back
        return False

    def hash(self, path):
        text = self._content(path)
        return None if text is None else self._sha256(text).hexdigest()

    def _content(self, path):
        try:
            file = self._open(path, READING)
        except OSError:
            return None
        try:
            pieces = []
            while True:
                piece = self._read(file, 1 << 20)
                if not piece:
                    return b"".join(pieces)
                pieces.append(piece)
        except OSError:
            return None
        finally:
            self._close(file)

    # Plugins and hooks.

    def configured(self, config):
        self._config = config
        self.check_path()

    def is_ready(self):
        """Whether pytest has completed its configuration."""
        return self._config is not None

    def registered(self, plugin, manager):
        """Records a plugin. A plugin counts if it was registered at any time."""
        self._manager = manager
        try:
            name = manager.get_name(plugin) or type(plugin).__name__
        except Exception:
            name = type(plugin).__name__
        self._report("plugins", name, places(plugin))
        self.check_path()

    def _check_plugins(self, recorder):
        manager = self._config.pluginmanager
        for name, plugin in manager.list_name_plugin():
            if plugin is not None and plugin is not recorder:
                self._report("plugins", name, places(plugin))
        for caller in list(vars(self._config.hook).values()):
            for impl in self._impls(caller):
                if impl.plugin is not recorder:
                    self._report("plugins", impl.plugin_name, self._places(impl.function))

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

    def before_canaries(self, items, canaries):
        """Records the functions' code before canaries replace it."""
        self._exchanging = type(canaries).lay.__globals__
        self._check_watchers()
        for item in items:
            function = self._function(item)
            if function is not None:
                self._functions.setdefault(function, state(function))

    def collected(self, session, recorder, canaries):
        self._session = session
        self._canaries = canaries
        self._check_folders(self._here)
        self._looked = 0.0
        self.check(recorder)
        self._hooks = self._decisive()
        for nodeid in canaries.others:
            self._report("swapped", nodeid, [""])
        for item in session.items:
            function = self._function(item)
            code = None
            if function is not None:
                code = self._functions.get(function) or state(function)
            kept = (item, code, self._given(item), type(item), self._class_overrides(item))
            self._tests.setdefault(item.nodeid, []).append(kept)
            if not self._is_own_class(type(item)):
                self._report("patched", "the class of a test", [""])
            if function is None:
                continue
            own = str(getattr(item, "path", None) or getattr(item, "fspath", ""))
            files = [file for file in places(function) if file != own]
            genuine = self._genuine.get(own)
            if not files and genuine is not None:
                # The function must have the same code object that was compiled, not just the same file name.
                if not any(code[1] is piece for piece in genuine) and not self._is_hypothesis_wrapper(function, genuine):
                    files = [""]
            if files:
                # Report one function per file: a base class or decorator usually affects many.
                self._report("foreign", item.nodeid.split("::", 1)[0], files)

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

    def before_call(self, item):
        """Checks that the function to be called is the one that was collected."""
        self._failing = self._caught = False
        was = [found for found in self._tests.get(item.nodeid, ()) if found[0] is item]
        if not was:
            self._report("swapped", item.nodeid, [""])
        called = None
        for _, function, given, kind, in_front in was:
            try:
                now = unwrapped(item.obj) if function is not None else None
                # A test that requests a fixture at run time adds it to the known fixtures.
                found = self._given(item)
            except Exception:
                now, found = None, {}
            if type(item) is not kind:
                self._report_object("the class of a test", [""])
            for name, value in self._class_overrides(item).items():
                if in_front.get(name, self) is not value:
                    self._report_object("%s of a test" % name, self._places(value))
            exchanged, code = self._canaries.code(item)
            if function is not None and exchanged is function[0]:
                function = (function[0], code) + function[2:]
            if function is not None and not same(state(now), function):
                self._report("swapped", item.nodeid, places(now))
            if not all(same(parts, found.get(name, ())) for name, parts in given.items()):
                self._report("swapped", item.nodeid, [""])
            called = now
        self._running = getattr(called, "__code__", None) if type(called) is types.FunctionType else None
        name = getattr(item, "originalname", None) or item.name.split("[", 1)[0]
        self._current = (str(getattr(item, "path", None) or getattr(item, "fspath", "")), name)
        self._is_in_call = True
        self._check_tracers()
        self._check_folders(self._folders)

    def _report_object(self, name, files):
        if "objects" in self._checks:
            self._report("patched", name, files)

    @staticmethod
    def _class_overrides(thing):
        """Returns an object's own attributes that take precedence over callable attributes of its class."""
        kind, found = type(thing), {}
        for name, value in list(getattr(thing, "__dict__", {}).items()):
            if name in SET_BY_PYTEST:
                continue
            for base in kind.__mro__:
                if name in vars(base):
                    if isinstance(vars(base)[name], BINDINGS):
                        found[name] = value
                    break
        return found

    def after_phase(self, recorder):
        now = self._decisive()
        if self._hooks is not None and not same(now, self._hooks):
            self._hooks = now
            self._check_plugins(recorder)
        start = self._now()
        if start - self._last > SHARE * self._cost:
            self._check_bindings()
            self._last = self._now()
            self._cost = self._last - start

    # Locations of tests.

    def _identity(self, folder):
        try:
            status = self._stat(folder)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _check_folders(self, folders):
        """Checks the identity of folders: a folder that was moved away and back leaves no trace on its files."""
        start = self._now()
        if start - self._looked > SHARE * self._walked:
            for folder, was in folders.items():
                if self._identity(folder) != was:
                    self._report("moved", folder[len(self._work) :] or "the working directory", [""])
            self._looked = self._now()
            self._walked = self._looked - start

    # The full check.

    def check(self, recorder):
        self.check_openings()
        self._check_watchers()
        # A profile function of the graded code would run on each call below, and CPython 3.11 crashes in some of these.
        # A native profiler, such as `cProfile`, runs no graded code and could not be set again.
        watcher = self._get_profile()
        watcher = watcher if callable(watcher) else None
        if watcher is not None:
            self._set_profile(None)
        # A check creates many objects but no garbage.
        collects = gc.isenabled()
        gc.disable()
        try:
            self._check_plugins(recorder)
            self._check_bindings()
            self._check_objects()
            self._check_modules()
            self._check_classes_of_tests()
            self._check_snapshot()
            self._check_folders(self._folders)
            self.check_path()
        finally:
            if collects:
                gc.enable()
            if watcher is not None:
                self._set_profile(watcher)

    def check_path(self):
        for entry in sys.path:
            if entry not in self._path and len(self._path) < 1000:
                self._path.append(entry)

    def _check_bindings(self):
        now = vars(builtins)
        for name, value in self._builtins.items():
            if now.get(name) is not value:
                self._report("patched", "builtins." + name, places(now.get(name)))
        for label, holder, name, value, was in self._bindings:
            found = vars(holder).get(name)
            if found is value:
                if not same(state(found), was):
                    # Changing a function in place has no honest use, whatever file the code claims.
                    self._report("patched", label + "." + name, [""])
            else:
                files = places(found) if self._is_written(found) else [""]
                self._report("patched", label + "." + name, files)
        for label, holder, names in self._names:
            for name in vars(holder).keys() - names:
                value = vars(holder)[name]
                # A new name that shadows a name in the builtins or a base class.
                further = self._builtins if isinstance(holder, types.ModuleType) else ()
                if name in further or (is_class(holder) and isinstance(value, BINDINGS)):
                    self._report("patched", label + "." + name, places(value))
        for label, module in self._modules.items():
            if sys.modules.get(label) is not module:
                self._report("patched", "sys.modules[%r]" % label, places(sys.modules.get(label)))

    def _is_written(self, value):
        """Whether a function is really defined in the file that its code claims."""
        value = unwrapped(value)
        if not isinstance(value, types.FunctionType):
            return True
        file, name = value.__code__.co_filename, str(value.__globals__.get("__name__"))
        if file.startswith(self._graded) or not file.startswith("/"):
            return True
        return value.__code__ in self._codes(name, file)

    def _codes(self, name, file):
        """Returns every code object of a file's source."""
        if file not in self._written:
            try:
                whole = importlib.machinery.SourceFileLoader(name, file).get_code(name)
            except Exception:
                whole = None
            self._written[file] = inner(whole)
        return self._written[file]

    # The original code objects and classes of pytest and its libraries, by identity, because file names can be forged.

    def _remember_engine(self):
        self._engine_codes, self._engine_classes, self._engine_files = {}, {}, set()
        for _, holder in holders():
            for value in [holder] + list(vars(holder).values()):
                if is_class(value) and self._claims(value):
                    self._engine_classes[id(value)] = value
                found = [value.fget, value.fset] if isinstance(value, property) else [unwrapped(value)]
                for function in found:
                    while isinstance(function, types.FunctionType):
                        for code in inner(function.__code__):
                            self._engine_codes[id(code)] = code
                        self._engine_files.add(function.__code__.co_filename)
                        function = vars(function).get("__wrapped__")

    def _is_own_class(self, kind):
        """Whether a class that claims to belong to pytest or its libraries really does."""
        return self._engine_classes.get(id(kind)) is kind or not self._claims(kind)

    @staticmethod
    def _claims(kind):
        module = DICT_OF(kind).get("__module__")
        return type(module) is str and (module.startswith(ENGINE) or module in ENGINES)

    def _places(self, value):
        """Returns the files of a value, or an empty name if it only claims to belong to pytest or its libraries."""
        if is_class(value):
            return places(value) if self._is_own_class(value) else [""]
        function = unwrapped(value)
        if isinstance(function, types.FunctionType):
            code = function.__code__
            # A class may create a method when it is instantiated. The code of that method is in the class's file.
            if code.co_filename in self._engine_files and "objects" in self._checks:
                if self._engine_codes.get(id(code)) is not code and not self._is_written(function):
                    return [""]
            return places(value)
        return places(value) if self._is_own_class(type(value)) else [""]

    def _check_objects(self):
        """Checks functions in an object's own dictionary, which take precedence over those of its class."""
        config, session = self._config, self._session
        manager = config.pluginmanager
        callers = [(name, caller) for name, caller in list(vars(config.hook).items()) if name.startswith("pytest_")]
        objects = [config, manager, config.hook, session, pytest.mark]
        objects += [getattr(session, "_setupstate", None), getattr(session, "_fixturemanager", None)]
        for thing in objects + [caller for _, caller in callers]:
            if thing is not None and not self._is_own_class(type(thing)):
                self._report_object("the class of %s" % NAME_OF(type(thing)), [""])
            for name in CALLED:
                called = getattr(thing, name, None)
                if called is not None:
                    self._check_called("%s.%s" % (NAME_OF(type(thing)), name), called)
        objects += list(sys.meta_path)
        for finder in list(sys.path_importer_cache.values()):
            if finder is not None:
                objects.append(finder)
                for part in [finder] + [loader for _, loader in getattr(finder, "_loaders", ())]:
                    kind = part if is_class(part) else type(part)
                    if kind not in IMPORTERS:
                        self._report("patched", "an import hook", self._places(kind))
        for thing in objects:
            if is_class(thing):
                continue
            for name, value in list(getattr(thing, "__dict__", {}).items()):
                label = "%s.%s" % (NAME_OF(type(thing)), name)
                if isinstance(unwrapped(value), types.FunctionType):
                    self._report("patched", label, self._places(value))
                elif thing is config.hook and name.startswith("pytest_"):
                    files = self._places(value) + self._places(getattr(value, "_hookexec", value))
                    if not self._pluggy.issuperset(files):
                        self._report("patched", label, files)
            if any(thing is one for one in (config, manager, session)):
                for name, value in self._class_overrides(thing).items():
                    if not isinstance(unwrapped(value), types.FunctionType) and value is not None:
                        self._report_object("%s.%s" % (NAME_OF(type(thing)), name), self._places(value))
        for finder in self._preceding_import_hooks():
            self._report("patched", "an import hook", self._places(finder))

    def _check_called(self, label, called):
        bound = getattr(called, "__self__", None) if isinstance(called, types.MethodType) else None
        if not isinstance(unwrapped(called), types.FunctionType):
            self._report_object(label, self._places(called))
        elif bound is not None and not self._is_own_class(type(bound)):
            self._report_object(label, [""])
        elif self._engine_codes.get(id(unwrapped(called).__code__)) is None:
            self._report_object(label, self._places(called))

    # Code that observes or interrupts other code.

    def _remember_watchers(self):
        self._get_profile, self._get_trace, self._callbacks = sys.getprofile, sys.gettrace, gc.callbacks
        self._set_profile = sys.setprofile
        self._get_signal, self._frames = signal.getsignal, sys._current_frames
        self._threads, self._this_thread = threading._active, threading.get_ident
        self._handlers = {number: signal.getsignal(number) for number in TIMERS}
        self._tool_of = getattr(getattr(sys, "monitoring", None), "get_tool", None)
        self._tools = [self._tool_of(number) for number in range(6)] if self._tool_of else []

    def _check_tracers(self):
        for label, hook in (("sys.settrace", self._get_trace()), ("sys.setprofile", self._get_profile())):
            if hook is not None:
                self._report_watcher(label, self._places(hook))
        for hook in list(self._callbacks):
            self._report_watcher("gc.callbacks", self._places(hook))
        if self._monitoring is not None:
            if self._monitoring.get_events(SWALLOWED) != self._monitoring.events.RAISE:
                self._report_watcher("sys.monitoring", [""])

    def _check_watchers(self):
        """Reports code under test that may run in the middle of a test."""
        self._check_tracers()
        for number, was in self._handlers.items():
            handler = self._get_signal(number)
            if handler is not was and callable(handler):
                self._report_watcher("a handler of signal %d" % number, self._places(handler))
        for number, was in enumerate(self._tools):
            tool = self._tool_of(number)
            if tool != was and tool != "coverage.py":
                self._report_watcher("sys.monitoring", [""])
        if "watchers" in self._checks:
            for number, frame in list(self._frames().items()):
                if number != self._this_thread():
                    self._check_thread(number, frame)

    def _report_watcher(self, label, files):
        if "watchers" in self._checks:
            self._report("patched", label, files)

    def _check_thread(self, number, frame):
        """Reports a thread that runs code under test and that `threading` does not know, or that refers to tests or
        frames."""
        is_known, holds, files = number in self._threads, False, []
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(self._graded) and "-packages" + os.sep not in file:
                files.append(file)
                for value in list(frame.f_locals.values()):
                    kind = type(value)
                    holds = holds or kind is types.FrameType or self._engine_classes.get(id(kind)) is kind
                    if kind is types.ModuleType:
                        holds = holds or vars(value).get("__file__") in self._watch
            elif file[:1] != "/" and not self._is_of_module(frame.f_globals):
                files.append("")
            frame = frame.f_back
        if files and (holds or not is_known):
            self._report("patched", "a thread that watches", files[:1])

    # The environment's modules before any graded code ran.

    def _remember_modules(self):
        self._snapshot, self._shadowed, self._seen = [], [], set()
        if "snapshots" not in self._checks:
            return
        for key, module in list(sys.modules.items()):
            is_engine = key.startswith(ENGINE) or key in ENGINES or key in ("builtins", "__main__")
            self._seen.add(key)
            if is_engine or not isinstance(module, types.ModuleType) or self._inside(module):
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
        self._known_objects.update((id(value), value) for value in self._builtins.values())

    def _check_snapshot(self):
        for label, holder, name, value, was in self._snapshot:
            now = (holder if type(holder) is dict else vars(holder)).get(name, value)
            if now is value:
                if not same(state(value), was):
                    self._report_module(label, [""])
            elif name not in HANDLERS and now is not None:
                # An import does not move an existing object to another name.
                moved = self._known_objects.get(id(now)) is now or type(now) in REPLACING
                self._report_module(label, [""] if moved or self._is_nowhere(now) else self._places(now))
        for key, known, names in self._shadowed:
            for name in (known.keys() & self._builtins.keys()) - names - OF_EVERY_MODULE:
                self._report_module(key + "." + name, self._places(known[name]))
        for key, module in list(sys.modules.items()) if self._snapshot else ():
            if key not in self._seen and key.split(".", 1)[0] in self._provided:
                self._check_written(key, module)

    def _report_module(self, label, files):
        if label not in EXTENSIONS:
            self._report("replaced", label, files)

    def _check_written(self, key, module):
        """Checks a module that was loaded later: a function that its source defines once and without a
        decorator must be the one from its source. A replacement is reported if it comes from the code under
        test or has no known origin."""
        if not isinstance(module, types.ModuleType) or self._inside(module):
            return
        known = vars(module)
        file, loader = known.get("__file__"), known.get("__loader__")
        if not isinstance(file, str) or not file.endswith(".py") or type(loader) is not IMPORTERS[1]:
            return
        codes = self._codes(key, file)
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
            return file.startswith(self._graded) and "-packages" + os.sep not in file
        return not self._is_of_module(value.__globals__)

    def _compare_written(self, label, known, code):
        for name, written in self._once(defined, code, "def").items():
            value = unwrapped(known.get(name, written))
            if value is written or value is None:
                continue
            if isinstance(value, types.FunctionType):
                found = value.__code__
                if found.co_filename == code.co_filename and found in self._written.get(code.co_filename, ()):
                    continue
                # A file name that is the module's own, or missing, is forged.
                is_forged = found.co_filename == code.co_filename or found.co_filename[:1] != "/"
                self._report_module(label + "." + name, [""] if is_forged else self._places(value))
            elif self._known_objects.get(id(value)) is value or type(value) in REPLACING:
                self._report_module(label + "." + name, [""])

    def _preceding_import_hooks(self):
        """Yields import hooks that precede the interpreter's own. Later hooks are only used for modules that the
        interpreter's own hooks do not find."""
        for now, own in zip((list(sys.meta_path), list(sys.path_hooks)), self._finders):
            is_own = [any(finder is known for known in own) for finder in now]
            while is_own and not is_own[-1]:
                is_own.pop()
            for finder, known in zip(now, is_own):
                if not known:
                    yield finder

    def _inside(self, module):
        """Returns the file of a module if it is in the work directory."""
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

    def _check_modules(self):
        """Reports modules that the environment provides but that came from elsewhere, and objects that the
        graded code put into the environment's modules."""
        everything = list(sys.modules.items())
        graded = {key for key, module in everything if self._inside(module) is not None}
        for key, module in everything:
            top = key.split(".", 1)[0]
            if module is None:
                continue
            if key in self._helpers:
                self._check_helper(key, module)
            if top not in self._provided:
                continue
            file = self._inside(module)
            if file is not None:
                self._report("replaced", key, [file])
            elif key == top and isinstance(module, types.ModuleType):
                known = vars(module)
                loader = known.get("__loader__")
                named = known.get("__file__") or known.get("__path__") is not None
                if not named and loader is None:
                    self._report("replaced", key, [""])
            elif key == top:
                self._report("replaced", key, places(module))
                continue
            if file is None and isinstance(module, types.ModuleType):
                self._check_contents(key, module, graded)

    def _check_classes_of_tests(self):
        """Checks that each class in a test module still has the methods that its file defines. Its base class or an
        attribute may have replaced them. Test functions are checked elsewhere."""
        modules = [(key, vars(one)) for key, one in list(sys.modules.items()) if isinstance(one, types.ModuleType)]
        for key, known in modules:
            codes = self._genuine.get(known.get("__file__"))
            if not codes:
                continue
            genuine, bodies = {id(code) for code in codes}, {}
            for code in codes:
                bodies.setdefault(code.co_name, []).append(code)
            for value in list(known.values()):
                if is_class(value) and DICT_OF(value).get("__module__") == key:
                    body = bodies.get(NAME_OF(value), ())
                    if len(body) == 1:
                        self._check_class_of_tests("%s.%s" % (key, NAME_OF(value)), value, body[0], genuine)

    def _check_class_of_tests(self, label, kind, body, genuine):
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
                self._report("replaced", label + "." + name, [""] if value is None else self._places(value))
            elif type(value) in REPLACING:
                self._report("replaced", label + "." + name, [""])

    def _check_helper(self, key, module):
        """Checks that a module in a test folder, and its functions, come from its file."""
        self._report("replaced", key, places(module))
        if not isinstance(module, types.ModuleType):
            return
        file = vars(module).get("__file__")
        if not isinstance(file, str):
            return
        # Tests were already compiled in this run.
        codes = self._genuine.get(file) or self._codes(key, file)
        for name in self._shadows(module, codes):
            self._report("replaced", key + "." + text(name), places(vars(module)[name]))
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
                if value.__code__.co_filename.startswith(self._graded) and value.__code__.co_filename != file:
                    self._report("replaced", label + "." + text(name), places(value))

    def _shadows(self, module, codes):
        """Returns the names of builtins that a module defines although no line of its code sets them."""
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
                        if method.__code__.co_filename.startswith(self._graded):
                            label = "%s.%s.%s" % (key, value.__name__, text(name))
                            if label not in EXTENSIONS and not self._imports(key, file, graded):
                                self._report("replaced", label, places(method))
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
                        self._report("replaced", key + "." + text(name), [""])
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
                self._report("replaced", key + "." + text(name), places(value))

    def _imports(self, key, file, graded):
        """Whether a module of the environment, or another module of its package, imports a graded module. A package may
        expose its classes in any of its modules."""
        tops, own = {name.split(".", 1)[0] for name in graded}, key.split(".", 1)[0]
        files = [(key, file)]
        for name, module in list(sys.modules.items()):
            if name.split(".", 1)[0] == own and isinstance(module, types.ModuleType):
                files.append((name, vars(module).get("__file__")))
        for name, file in files:
            codes = self._codes(name, file) if isinstance(file, str) and file.endswith(".py") else []
            if any(name.split(".", 1)[0] in tops for code in codes for name in code.co_names):
                return True
        return False

    def _report(self, kind, name, files):
        if self._pid() != self._owner:
            self._report_parent(kind, name, files)
            return
        where = self._lists[kind]
        for file in files:
            if len(where) < MAX_ENTRIES:
                where[text(name), file] = True
            elif (text(name), file) not in where:
                where["more", ""] = True

    # A forked process has the hooks but not the pipe, so it writes its observations to shared memory.

    def _report_parent(self, kind, name, files):
        shared = self._shared
        if shared is None:
            return
        for file in files:
            told = "\0".join((kind, text(name), file)).encode("utf-8", "replace")[: SLOT - 2] + b"\0"
            for start in range(0, SLOT * SLOTS, SLOT):
                at = shared[start : start + SLOT]
                if at[:1] == b"\0":
                    shared[start : start + 1 + len(told)] = b"\1" + told
                    break
                if at[1:].startswith(told):
                    break

    def _collect_from_children(self):
        for start in range(0, SLOT * SLOTS, SLOT) if self._shared is not None else ():
            told = self._shared[start : start + SLOT]
            if told[:1] != b"\0":
                parts = told[1:].decode("utf-8", "replace").split("\0")
                if parts[0] in self._lists and len(parts) > 2:
                    self._report(parts[0], parts[1], [parts[2]])

    def is_forked(self):
        return self._pid() != self._owner

    def ran_in_fork(self, item):
        """Reports a test that runs in a forked process, which could tell its parent what the next tests expect."""
        if "forks" in self._checks:
            self._report("forked", item.nodeid, [""])

    def failed(self, where, error):
        """Reports that a hook of the recorder raised an exception, because the hook's observation is then missing."""
        if "failures" in self._checks:
            self._report("failed", "%s: %s" % (where, NAME_OF(type(error))), [""])

    def observations(self):
        self._collect_from_children()
        pairs = lambda kind: [[name, file] for name, file in self._lists[kind]]
        names = lambda kind: [name for name, _ in self._lists[kind]]
        told = {kind: pairs(kind) for kind in ("plugins", "patched", "foreign", "swapped", "replaced", "readers")}
        told.update({kind: names(kind) for kind in ("moved", "swallowed", "caught", "failed", "forked")})
        told.update(path=[text(entry) for entry in self._path], compiled=self._compiled)
        return told
