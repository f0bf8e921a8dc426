"""Runs canaries. A canary is a second run of a test with a mistake in one of its expectations.

A test with a canary has two items with the same name, module, file, lines and globals: pytest's own item and a
copy. A random choice decides which of the two runs as the test. The mistake is either in the function's code
object, which is replaced for one run, or in a value that the test receives, which is replaced for the call.
Before the tests begin, the function has the code of the item that runs first. So neither a function nor an item
reveals which of the two is the test.

The tests' texts and the mistakes are read only when the canaries are installed. During that time no code under test
is called, because that code would find the texts in its callers' frames. A canary's text is kept to show the source
lines of the running code, so that a printed or logged stack shows the mistake. A mistake in a branch counts if the
canary's run takes this branch. A counter before the statement records this. The counter can be hashed, because
tools hash code. Runs on Python 3.6 and later.
"""

import __future__
import ast
import inspect
import itertools
import os
import types

from _pytest.assertion.rewrite import rewrite_asserts

try:
    import _tracemalloc as traced
except ImportError:
    traced = None  # This interpreter does not have the module.

# Items whose copies are equivalent. Items of other plugins may have state that is not copied.
PLAIN = ("_pytest.python", "_pytest.unittest")
TAKES = inspect.signature(rewrite_asserts).parameters
# Read the attributes of a class or an object itself, even if the class or metaclass overrides access.
NAME_OF = type.__dict__["__name__"].__get__
DICT_OF = type.__dict__["__dict__"].__get__
MRO_OF = type.__dict__["__mro__"].__get__
TRACEBACK_OF = BaseException.__dict__["__traceback__"].__get__
MARK = "the statement that follows is reached"
# The functions that trace where objects were allocated.
TRACING = getattr(traced, "is_tracing", bool)
TRACED_BY = getattr(traced, "get_traceback_limit", int)
STOP_TRACING = getattr(traced, "stop", None)
START_TRACING = getattr(traced, "start", None)
FUTURE = 0
for feature in __future__.all_feature_names:
    FUTURE |= getattr(__future__, feature).compiler_flag


def is_class(value):
    # Unlike `type()`, `isinstance` believes `__class__`, which `list[int]` forwards to `list` before Python 3.11.
    return issubclass(type(value), type)


class NoCanary(Exception):
    """No canary can be made from this test. Any other exception has no honest cause."""


class Canaries:
    def __init__(self, emit, take, seconds):
        self._emit = emit
        self._take = take
        self._seconds = seconds
        self._spent = 0.0
        self._runs = {}
        self._given = {}
        self._marks = {}
        self._shown = {}
        self._raised = None, False
        self._taken, self._environ, self._said = [], os.environ, None
        self.others = []
        # Bound before any graded code is loaded.
        self._compile, self._evaluate, self._named = compile, eval, None
        self.current = self._nodeid = None

    def lay(self, items):
        """Inserts a copy next to each item that has a canary. Call this when the wanted items are known."""
        limit = TRACED_BY() if TRACING() else None
        if limit is not None:
            # Allocation traces would distinguish a test's literals from those of its canary.
            STOP_TRACING()
        try:
            self._lay(items)
        finally:
            if limit is not None:
                START_TRACING(limit)

    def _lay(self, items):
        for item in items:
            forget_values(item)
        by_name = {}
        for item in items:
            # Do everything that may call code under test here, before the strings are known.
            by_name.setdefault(item.nodeid.split("[", 1)[0], []).append((item, function_of(item)))
        try:
            order = self._take()
        except Exception:
            return  # Other code has read the canaries. The grader reports each of them as missing.
        # Keep these only until all canaries are installed: an extra reference to a code object would reveal the canary.
        compiled, marks = {}, {}
        for canary in order:
            marks.setdefault((canary["id"], tuple(canary["path"])), set()).update(canary["marks"])
        beside, laid, tests = {}, {}, {}
        for number, canary in enumerate(order):
            try:
                found = by_name.get(canary["id"], [])
                lines = marks[canary["id"], tuple(canary["path"])]
                item, function, test, code, value = self._make(canary, found, compiled, lines, number)
                run = self._duplicate(item)
            except NoCanary as error:  # This test has no canary; the others are not affected.
                self._report(number, "left_out", str(error))
                continue
            except Exception as error:
                self._report(number, "left_out", "failed: " + NAME_OF(type(error)))
                continue
            self._report(number, "laid", item.nodeid)
            laid.setdefault(function, test)
            if canary["swapped"] and id(item) not in tests and type(item).__module__ in PLAIN:
                tests[id(item)], run = run, item
            self._runs[id(run)] = (run, function, code, number)
            if value is not None:
                self._given[number] = value
            beside.setdefault(id(item), []).append((canary["place"], run))
        if not laid:
            return
        names = {function.__name__ for function in laid}
        for found in by_name.values():
            for item, function in found:
                # Another item of the same function (another parameter or a subclass) runs its own code.
                if original_name(item) in names and function in laid:
                    test = tests.get(id(item), item)
                    self._runs[id(test)] = (test, function, laid[function], None)
        ordered = []
        for item in items:
            runs = beside.get(id(item), []) + [(0.5, tests.get(id(item), item))]
            ordered += [run for _, run in sorted(runs, key=lambda pair: pair[0])]
        items[:] = ordered
        for item in reversed(items):
            if id(item) in self._runs:
                _, function, code, _ = self._runs[id(item)]
                function.__code__ = code

    def _make(self, canary, found, compiled, marks, number):
        """Returns the item to copy, its function, the code of the test and of the canary, and the value that
        the canary receives. `compiled` caches the tests' code by function."""
        if canary["parameter"] is not None:
            name, written = canary["parameter"]
            found = [pair for pair in found if self._parameter(pair[0], name) == written]
        if not found:
            raise NoCanary("the test was not collected")
        item, function = found[int(canary["pick"] * len(found)) % len(found)]
        if function is None or not hasattr(type(item), "_initrequest"):
            raise NoCanary("the test has no function")
        text = canary["text"].encode("utf-8")
        if function not in compiled:
            compiled[function] = self._test(item, canary["path"], text, function, marks)
        test = compiled[function]
        # A control is the unchanged test: it shows whether the test can run twice at all.
        if canary["control"]:
            return item, function, test, test, None
        if canary["given"] is not None:
            place, name, written = canary["given"]
            # Compile the constant like the test's own, because strings that look like names are interned.
            value = self._evaluate(self._compile(written, "<value>", "eval", 0, True), {"__builtins__": {}})
            return item, function, test, test, (place, name, value)
        for start, end, now in sorted(canary["edits"], reverse=True):
            text = text[:start] + now.encode("utf-8") + text[end:]
        seen = itertools.count()
        code = self._code(item, canary["path"], text, function, marks, seen)
        self._shown[number] = function.__code__.co_filename, text.decode("utf-8").splitlines(True)
        if code == test:
            raise NoCanary("the mistake changes nothing")
        if canary["marks"]:
            self._marks[number] = [seen, repr(seen)]
        return item, function, test, code, None

    def _test(self, item, path, text, function, marks):
        """Compiles the test's code in the same way as its canaries' code, so that both share equally little
        with the module."""
        test = self._code(item, path, text, function, (), None)
        if test == function.__code__:
            return self._code(item, path, text, function, marks, itertools.count()) if marks else test
        # The collected code differs from the file's code.
        self.others.append(item.nodeid)
        return function.__code__

    @staticmethod
    def _parameter(item, name):
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        value = parameters.get(name, NoCanary)
        return repr(value) if is_literal(value) else None

    def _code(self, item, path, text, function, marks, seen):
        """Returns the code of one function in a source text, compiled as pytest compiles it."""
        # Don't use `ast.parse`: any code can replace a function of a module.
        tree = self._compile(text, "<test>", "exec", ast.PyCF_ONLY_AST, True)
        wanted, node = [], tree
        for name in path:
            node = [inner for inner in node.body if getattr(inner, "name", None) == name][-1]
            wanted.append(node)
        for outer, inner in zip(wanted, wanted[1:]):
            outer.body, outer.decorator_list = [inner], []
        # Keep the imports: calls of imported names are compiled differently (Python 3.11 and later).
        tree.body = [part for part in tree.body if imports(part)] + [wanted[0]]
        if marks:
            set_marks(wanted[-1], frozenset(marks))
        if "@pytest_ar" in function.__globals__:
            try:
                rewrite(tree, text, function.__code__.co_filename, item)
            except Exception:
                raise NoCanary("pytest cannot rewrite the test's assertions")
        was = function.__code__
        code = self._compile(tree, was.co_filename, "exec", was.co_flags & FUTURE, True)
        for name in path:
            found = [part for part in code.co_consts if getattr(part, "co_name", None) == name]
            if not found:
                raise NoCanary("the module's code does not contain the function")
            code = found[-1]
        for same in ("co_freevars", "co_argcount", "co_kwonlyargcount", "co_firstlineno", "co_name"):
            if getattr(code, same) != getattr(was, same):
                raise NoCanary("the collected function has a different " + same)
        if marks:
            values = [seen if type(value) is str and value == MARK else value for value in code.co_consts]
            code = code.replace(co_consts=tuple(values))
        return code

    @staticmethod
    def _duplicate(item):
        if type(item).__module__ in PLAIN:
            return duplicate(item)
        try:
            return duplicate(item)
        except Exception:
            raise NoCanary("a plugin's test cannot be copied")

    def code(self, item):
        """Returns the function whose code is replaced for an item's run, and the code for that run."""
        run = self._runs.get(id(item))
        return (None, None) if run is None else run[1:3]

    # While the tests run.

    def lines(self, name):
        """Returns the lines of a file as the running canary has them; `None` if they are unchanged."""
        file, lines = self._shown.get(self.current, (None, None))
        return lines if file == name else None

    def begin(self, item):
        run = self._runs.get(id(item))
        self.current = None
        if run is not None:
            _, function, code, self.current = run
            self._nodeid = item.nodeid
            if self.current in self._marks:
                self._marks[self.current][1] = repr(self._marks[self.current][0])
            if function.__code__ is not code:
                function.__code__ = code
            self._rename(item)

    def _rename(self, item):
        """Puts the mistaken value into the canary's name, because folders and files are named after it."""
        place, name, value = self._given.get(self.current, ("module", None, None))
        params = getattr(getattr(item, "callspec", None), "params", {})
        if place != "module" and name in params and "[" in item.name:
            self._named = item, item.name
            head, _, tail = item.name.partition("[")
            item.name = head + "[" + tail.replace(str(params[name]), str(value))

    def give(self, item):
        """Replaces the test's own value with the mistaken one, either in the arguments and everything else that
        refers to the value, or in the module. Called after the setup phase, because a parameter may have created a
        fixture with a wider scope."""
        if self.current not in self._given:
            return
        place, name, value = self._given[self.current]
        if place == "module":
            found = self._runs[id(item)][1].__globals__
            self._exchange(found, name, value)
            return
        # The text of the parameter appears in pytest's environment variable for the running test.
        self._said = str(item.funcargs.get(name)), str(value)
        self._exchange(item.funcargs, name, value)
        callspec = getattr(item, "callspec", None)
        if name in getattr(callspec, "params", {}):
            self._exchange(callspec.params, name, value)
        definition = getattr(item._request, "_fixture_defs", {}).get(name)
        cached = getattr(definition, "cached_result", None)
        if cached:
            self._exchange(vars(definition), "cached_result", (value,) + tuple(cached[1:]))

    def set_current_test(self):
        """Puts the mistaken value into the id of the running test in the environment, which any code can read."""
        said, self._said = self._said, None
        name, end = "PYTEST_CURRENT_TEST", self._environ.get("PYTEST_CURRENT_TEST", "")
        if said is not None and "[" in end:
            head, _, tail = end.partition("[")
            self._environ[name] = head + "[" + tail.replace(*said)

    def _exchange(self, holder, name, value):
        if name in holder:
            self._taken.append((holder, name, holder[name]))
            holder[name] = value

    def take_back(self):
        while self._taken:
            holder, name, value = self._taken.pop()
            holder[name] = value

    def end(self, item):
        if self._named is not None:
            self._named[0].name = self._named[1]
            self._named = None
        if self.current is not None and self._spent > self._seconds:
            self._leave_out_the_rest(item)
        self.current = None

    def record_exception(self, item, excinfo):
        """Records what a phase raised: the line of the test, and whether the exception is a failed expectation."""
        self._raised = None, False
        if self.current is None or excinfo is None:
            return
        line, code = None, self._runs[id(item)][2]
        kind, traceback = type(excinfo.value), TRACEBACK_OF(excinfo.value)
        while traceback is not None:
            if traceback.tb_frame.f_code is code:
                line = traceback.tb_lineno
            traceback = traceback.tb_next
        expectation = AssertionError in MRO_OF(kind) or NAME_OF(kind) == "Failed"
        self._raised = line, expectation

    def is_current(self, nodeid):
        """Whether a report belongs to the running canary. A forged report about another test does not."""
        return self.current is not None and nodeid == self._nodeid

    def report(self, record, report):
        """Records a canary's result for the grader only. Pytest gets the report of a pass instead."""
        self._spent += record.pop("seconds", 0)
        line, expectation = self._raised
        counter, before = self._marks.get(self.current, (None, None))
        reached = None if counter is None else repr(counter) != before
        record.update(t="canary", number=self.current, line=line, expectation=expectation, reached=reached)
        del record["id"]
        report.outcome, report.longrepr, report.sections = "passed", None, []

    def _leave_out_the_rest(self, item):
        """Removes later canaries, except the very next item, which pytest has already selected."""
        items = item.session.items
        at = next((at for at, one in enumerate(items) if one is item), len(items))
        for later in items[at + 2 :]:
            _, _, _, number = self._runs.get(id(later), (None, None, None, None))
            if number is not None:
                items.remove(later)
                self._report(number, "left_out", "slow")

    def _report(self, number, when, what):
        self._emit({"t": "canary_" + when, "number": number, "what": str(what)})


def forget_values(item):
    """Removes the values from the marks that created an item's parameters. Pytest no longer needs them, and other code
    could read the right values there during a canary's run."""
    if not hasattr(item, "iter_markers"):
        return  # This version of pytest is older than 3.6.
    for mark in item.iter_markers(name="parametrize"):
        try:
            if len(mark.args) > 1:
                object.__setattr__(mark, "args", mark.args[:1] + ((),) + mark.args[2:])
            if "argvalues" in mark.kwargs:
                object.__setattr__(mark, "kwargs", dict(mark.kwargs, argvalues=()))
        except AttributeError:
            pass  # The marks of this version cannot be changed.


def imports(node):
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return False
    return any(isinstance(part, (ast.Import, ast.ImportFrom)) for part in below(node))


def below(node):
    """Yields a node and everything below it, using only the node's own attributes."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        for name in node._fields:
            value = getattr(node, name, None)
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.AST):
                    pending.append(part)


def set_marks(function, lines):
    """Inserts a mark before the first statement on each of the lines."""
    for node in below(function):
        for name in ("body", "orelse", "finalbody"):
            statements = getattr(node, name, None)
            if not isinstance(statements, list):
                continue
            marked = []
            for statement in statements:
                line = getattr(statement, "lineno", None)
                if line in lines and not (marked and getattr(marked[-1], "lineno", None) == line):
                    marked.append(mark(statement))
                marked.append(statement)
            statements[:] = marked


def mark(statement):
    called = ast.Attribute(ast.Constant(MARK, None), "__next__", ast.Load())
    made = ast.Expr(ast.Call(called, [], []))
    for part in below(made):
        for name in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
            if name in getattr(part, "_attributes", ()):
                setattr(part, name, getattr(statement, name, None))
    return made


def is_literal(value, depth=0):
    """Whether a value consists only of built-in types, so that graded code does not define its `repr`."""
    kind = type(value)
    if kind in (list, tuple, set, frozenset):
        return depth < 20 and all(is_literal(part, depth + 1) for part in value)
    if kind is dict:
        return depth < 20 and all(is_literal(part, depth + 1) for pair in value.items() for part in pair)
    return value is None or kind in (int, float, complex, bool, str, bytes)


def rewrite(tree, source, file, item):
    if "source" in TAKES:
        rewrite_asserts(tree, source, file, item.config)
    else:
        rewrite_asserts(tree, item.fspath, item.config)


def original_name(item):
    return getattr(item, "originalname", None) or item.name.split("[", 1)[0]


def function_of(item):
    """Returns the function in the test's file, without its decorators' wrappers. Calls no code outside of pytest."""
    holder, name = getattr(item, "cls", None) or getattr(item, "module", None), original_name(item)
    if is_class(holder):
        found = next((DICT_OF(base)[name] for base in MRO_OF(holder) if name in DICT_OF(base)), None)
    else:
        found = vars(holder).get(name) if isinstance(holder, types.ModuleType) else None
    for _ in range(20):
        if isinstance(found, (staticmethod, classmethod, types.MethodType)):
            found = found.__func__
        try:
            within = object.__getattribute__(found, "__dict__").get("__wrapped__")
        except (AttributeError, TypeError):
            within = None
        if within is None:
            break
        found = within
    if isinstance(found, types.FunctionType) and found.__code__.co_name == name:
        return found
    return None


def copied(thing):
    """Returns a second object with the same attributes, like `copy.copy`."""
    kind = type(thing)
    twin = object.__new__(kind)
    for base in MRO_OF(kind):
        for member in list(DICT_OF(base).values()):
            if type(member) is types.MemberDescriptorType:
                try:
                    member.__set__(twin, member.__get__(thing, kind))
                except AttributeError:  # The attribute was never set.
                    pass
    if hasattr(thing, "__dict__"):
        twin.__dict__.update(thing.__dict__)
    return twin


def duplicate(item):
    """Returns a second item that does not refer to the first."""
    twin = copied(item)
    keywords = copied(item.keywords)
    if getattr(keywords, "node", None) is item:
        keywords.node = twin
        keywords._markers = dict(keywords._markers)
    twin.keywords = keywords
    for held in ("_obj", "_instance"):
        twin.__dict__.pop(held, None)
    for held in ("own_markers", "_report_sections"):
        if isinstance(getattr(twin, held, None), list):
            setattr(twin, held, list(getattr(twin, held)))
    stores = {}
    for held in ("stash", "_store"):
        kept = getattr(item, held, None)
        if kept is not None and hasattr(kept, "_storage"):
            if id(kept) not in stores:
                stores[id(kept)] = type(kept)()
                stores[id(kept)]._storage.update(kept._storage)
            setattr(twin, held, stores[id(kept)])
    twin._initrequest()
    if type(item).__module__ in PLAIN:
        for held in ("_obj", "_instance"):
            item.__dict__.pop(held, None)
        for one in (item, twin):
            ordered = sorted(one.__dict__.items())
            one.__dict__.clear()
            one.__dict__.update(ordered)
    return twin
