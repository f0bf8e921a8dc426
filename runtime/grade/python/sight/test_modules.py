"""Observes test modules: how pytest compiles them, who accesses their names, and who starts their tests."""

import ast
import os
import sys
import types

from .bytecode import inner
from .context import Observer
from .frames import ASKED
from .values import OWN_CODES

# Types of the data in which a test module stores expectations.
DATA = frozenset((list, tuple, dict, set, frozenset, str, bytes, bytearray, int, float, complex))
# The name, in pytest's assertion rewriting module, of the function that each test calls when it starts.
STARTS = "_starts"


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


class TestModules(Observer):
    """Modules that pytest compiles as tests."""

    def __init__(self, context, opened_files):
        super().__init__(context)
        self._opened_files = opened_files

    def install(self, answer, ask):
        self._hash_compiled_tests(answer, ask)
        self._watch_modules(answer, ask)
        self._watch_test_starts(answer, ask)

    def _hash_compiled_tests(self, answer, ask):
        """Hashes the text that is compiled as a test, whatever content the file has before and after."""
        rewrite = sys.modules.get("_pytest.assertion.rewrite")
        original = getattr(rewrite, "_rewrite_test", None)
        if original is None:
            return

        def compiled(arguments):
            paths = [os.path.abspath(str(a)) for a in arguments if isinstance(a, (str, os.PathLike))]
            name = self._paths.watch.get(paths[0]) if paths else None
            # Any code can compile text under a test's name. Only code that pytest compiles becomes a test.
            if name is None or self._frames.frame_of(ASKED + 1).f_code.co_filename not in self._engine.files:
                return original(*arguments)
            before = self._sources.hash(paths[0])
            result = original(*arguments)
            after = self._sources.hash(paths[0])
            self._run.compiled.setdefault(name, []).append(before if before == after else None)
            code = next((part for part in result if isinstance(part, types.CodeType)), None)
            self._run.genuine.setdefault(paths[0], []).extend(inner(code))
            # Report earlier openings now, so that later ones are not confused with the opening by pytest.
            self._opened_files.check()
            return result

        answer("compiled", compiled)
        rewrite._rewrite_test = lambda *arguments: ask("compiled", arguments)

    def _watch_modules(self, answer, ask):
        """Gives each test module a class that reports attribute access, before the module's code runs. Code under
        test can find functions, marks and tables of tests through a test module."""
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
        files = frozenset(self._paths.watch)

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
            if is_near and not self._paths.is_code_under_test(frame.f_code.co_filename):
                return
            if frame.f_code.co_filename in self._engine.files:
                return
            self._frames.report_asker("the module %s" % name, frame)
        except Exception as error:
            self._reports.failed("checking access to a test module", error)

    def _watch_test_starts(self, answer, ask):
        """Makes each test function report its start. Code under test could run a test with an object that records
        comparisons, to learn what the test expects. Adds a statement for this when pytest rewrites the function's
        assertions."""
        rewrite = sys.modules.get("_pytest.assertion.rewrite")
        rewriter = getattr(rewrite, "AssertionRewriter", None)
        if rewriter is None or "readers" not in self._checks:
            return
        original, files, add = rewriter.run, frozenset(self._paths.watch), add_starts

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
            frame = self._frames.frame_of(ASKED + 1)
            code = frame.f_code
            if code.co_filename in self._paths.watch and (code.co_filename, code.co_name) != self._run.current:
                who = self._frames.on_behalf_of(frame.f_back)
                if who is not None:
                    self._reports.report("readers", "%s, by running it" % code.co_name, [who])
        except Exception as error:
            self._reports.failed("checking who starts a test", error)
