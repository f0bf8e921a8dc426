"""Makes canaries: real tests with a mistake in one expectation, so that they must fail.

Reads `{"seed", "enough", "words", "work", "groups": {group: [{"name", "text", "functions", "conftests"}]}}`
and writes `{group: {"canaries": [...], "compares": N}}`. A canary is one mistake in one test: the same
names, lines and types, but another value. If the value comes from elsewhere (an argument or a constant of
the module) and the test reads it only there, the value is replaced and the test's code is unchanged.
Otherwise one line of the code is edited. `compares` counts the inspected tests that compare values. `work`
has the names that the task asks for. An expectation about these names makes a better canary than one about
existing code.

An edit is made only where the mistake certainly makes the test fail with honest values: in a statement that every
run of the test reaches, in an expectation that nothing else reads, and in the value itself rather than in a part
that a comparison may ignore. If this is not certain, there is no canary.

If all expectations of a test are in branches, each branch gets one mistake, so that the run meets a mistake
whichever branch it takes. `marks` contains the lines of these statements. The run reports whether it reached any.

Runs isolated, before any patch is applied, on Python 3.6 and later.
"""

import ast
import collections
import json
import random
import re
import sys

order = json.loads(sys.stdin.buffer.read().decode("ascii"))
words = {name: frozenset(value) for name, value in order["words"].items()}
words["work"] = frozenset(order["work"])
chance = random.Random(order["seed"])

# The opposite order uses another method. `==` and `!=` are left alone: a class may define one of them and inherit
# the other, so an honest value passes both. No edit compares an expression with
# itself: evaluating it twice may move a position or create a copy.
FLIPS = {ast.Lt: ("<", ">="), ast.GtE: (">=", "<"), ast.Gt: (">", "<="), ast.LtE: ("<=", ">")}
ORDERS = {
    "assertGreater": "assertLessEqual",
    "assertGreaterEqual": "assertLess",
    "assertLess": "assertGreaterEqual",
    "assertLessEqual": "assertGreater",
}
NEGATIONS = {
    "assertTrue": "assertFalse",
    "assertIs": "assertIsNot",
    "assertIsNone": "assertIsNotNone",
    "assertIn": "assertNotIn",
    "assertIsInstance": "assertNotIsInstance",
    "assertRegex": "assertNotRegex",
}
NEGATIONS.update({other: name for name, other in list(NEGATIONS.items())})
# Assertions that do not compare values, so an object equal to everything cannot affect them.
UNTRIED = ("asserttrue", "assertfalse", "assertis", "assertisnot", "assertisnone", "assertisnotnone")
PLAIN = (ast.Expr, ast.Assign, ast.AugAssign, ast.Assert, ast.Pass, ast.Delete, ast.Raise)
OTHER_TYPE = {
    "str": "bytes", "bytes": "str", "int": "str", "float": "str", "bool": "str", "complex": "str",
    "list": "tuple", "tuple": "list", "dict": "list", "set": "list", "frozenset": "list",
}
# Parts of the names of context managers that may catch exceptions.
CATCHERS = ("raise", "catch", "suppress", "except", "ignor", "fail", "expect", "warn")
CATCH_ALL = frozenset(("AssertionError", "Exception", "BaseException"))
KINDS = ("value", "wrapped", "operator", "negated")
RANKS = ("value", "raises", "wrapped", "operator", "negated", "fail")
# Marks are inserted into copies of compiled code. Code objects have a `replace` method since Python 3.8.
MARKS = sys.version_info >= (3, 8)
WORD = re.compile(r"[A-Z]?[a-z]+[0-9]*|[A-Z]+")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
STRING = re.compile(rb"([rRuUbB]{0,2})('''|\"\"\"|'|\")")
ESCAPE = re.compile(r"\\(?:x..|u....|U........|N\{[^}]*\}|[0-7]{1,3}|.)|.", re.S)
PLAIN_PATTERN = re.compile(r"[^\\.^$*+?{}\[\]()|]+\Z")
NUMBER = re.compile(rb"(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?![0-9A-Za-z_.])")


# Replaces the bytes from `start` to `end` with `new`. `parameter` is the name and value of the parameter whose run is
# copied. `given` is the value to replace instead of the code: where it is, its name, the literal.
Edit = collections.namedtuple("Edit", "start end new kind parameter given")
Edit.__new__.__defaults__ = (None, None)


class Source:
    def __init__(self, text):
        self.text = text.encode("utf-8")
        self.tree = ast.parse(text)
        self.starts = [0]
        for line in self.text.splitlines(True):
            self.starts.append(self.starts[-1] + len(line))
        self.stored, self.named, self.helped = {}, set(), set()
        for node in ast.walk(self.tree):
            if isinstance(node, FUNCTIONS + (ast.Lambda,)) and not getattr(node, "name", "").startswith("test"):
                self.helped.update(part.id for part in ast.walk(node) if isinstance(part, ast.Name))
            if isinstance(node, ast.Name):
                self.named.add(node.id)
                if not isinstance(node.ctx, ast.Load):
                    self.stored[node.id] = self.stored.get(node.id, 0) + 1
            elif isinstance(node, ast.Attribute):
                self.named.add(node.attr)

    def start(self, node):
        if node.col_offset < 0:
            return None  # A multi-line string, before Python 3.8.
        return self.starts[node.lineno - 1] + node.col_offset

    def end(self, node):
        line = getattr(node, "end_lineno", None)
        if line is not None:
            return self.starts[line - 1] + node.end_col_offset
        start = self.start(node)
        if start is None:
            return None
        if isinstance(node, ast.Name):
            return start + len(node.id.encode("utf-8"))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            written = ("%s.%s" % (node.value.id, node.attr)).encode("utf-8")
            return start + len(written) if self.text.startswith(written, start) else None
        return None

    def line(self, offset):
        return self.text.count(b"\n", 0, offset) + 1


def name_of(node):
    """Returns the last part of the name of a called function or a decorator."""
    if isinstance(node, ast.Call):
        node = node.func
    return getattr(node, "attr", getattr(node, "id", ""))


def constant(node):
    """Returns whether a node is a literal, and its value. Before Python 3.8, literals have several node types."""
    for field in ("value", "n", "s"):
        if type(node).__name__ in ("Constant", "Num", "Str", "Bytes", "NameConstant"):
            if hasattr(node, field):
                return True, getattr(node, field)
    return False, None


def literal(node):
    try:
        return True, ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return False, None


def caught_by(handler):
    """Returns the names of the exceptions that an `except` clause catches."""
    kinds = getattr(handler.type, "elts", [handler.type])
    return [name_of(kind) if kind is not None else "BaseException" for kind in kinds]


def own(node):
    """Yields the nodes below a node, except nodes inside nested functions and classes."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, FUNCTIONS + (ast.ClassDef, ast.Lambda)):
            for inner in own(child):
                yield inner


# Other values of the same kind.


def other_number(token, value, far):
    written = token.decode("ascii")
    if isinstance(value, bool):
        return "False" if value else "True"
    if isinstance(value, int):
        if str(value) != written:
            return None
        # Keep the trailing zeros: code could recognize a number that is less round than the right one.
        unit = 1
        while value and value % (unit * 10) == 0:
            unit *= 10
        if far:
            return str(value * 2 + chance.randint(100, 999) * unit)
        more = chance.choice([2, 3, 4] + ([10, 20] if value > 9 * unit else [])) * unit
        # Go up or down at random, so that neither the smaller nor the larger of two values is known to be right.
        return str(value - more if value > more and chance.random() < 0.5 else value + more)
    digits = [at for at, digit in enumerate(written) if digit in "123456789"]
    at = digits[0] if digits else len(written) - 1
    if not written[at].isdigit():
        return None
    new = chance.choice([digit for digit in "123456789" if digit != written[at]])
    changed = written[:at] + new + written[at + 1 :]
    # Functions that tolerate a difference often tolerate one of up to 1e-8.
    return None if far and abs(float(changed) - value) < 1e-7 else changed


def other_text(token, is_whole):
    """Returns a string token with one letter or digit changed, preferably to one that also occurs in the string:
    `IV` becomes `II`, not `IQ`. If there are no letters or digits, a character is repeated or left out: `||/` becomes
    `|||/`, because code could recognize a letter. This is only valid in a comparison with the whole text."""
    prefix, quote = STRING.match(token).groups()
    head, tail = token[: len(prefix) + len(quote)].decode("utf-8"), quote.decode("ascii")
    inner = token[len(head) : -len(tail)].decode("utf-8")
    if not inner:
        return head + chance.choice("abcdefghiklmnoprstuvw") + tail
    is_raw = b"r" in prefix.lower()
    pieces = [(m.start(), m.group()) for m in (re.compile(".", re.S) if is_raw else ESCAPE).finditer(inner)]
    kinds = ("0123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    places = [(at, piece, kind) for at, piece in pieces for kind in kinds if piece in kind]
    if places:
        at, piece, kind = chance.choice(places)
        near = [other for other in kind if other != piece and other in inner]
        new = chance.choice(near or [other for other in kind if other != piece])
        return head + inner[:at] + new + inner[at + 1 :] + tail
    plain = [at for at, piece in pieces if len(piece) == 1 and not piece.isspace()]
    # A text with more or fewer of the same characters may also be contained in another one, or make the same set.
    if plain and is_whole and not (is_raw and "\\" in inner):
        at = chance.choice(plain)
        shorter = len(inner) > 1 and chance.random() < 0.5
        return head + inner[:at] + ("" if shorter else inner[at] * 2) + inner[at + 1 :] + tail
    return head + inner + chance.choice("abcdefghiklmnoprstuvw") + tail


class Test:
    """A test function, and the edits that make it fail."""

    def __init__(self, source, node, scope, conftests):
        self.source = source
        self.node = node
        self.scope = scope  # The bodies around the function, from the inside out to the module's body.
        self.conftests = conftests
        self.parametrized = {}
        for decorator in node.decorator_list:
            if name_of(decorator) == "parametrize" and isinstance(decorator, ast.Call):
                self._read_parameters(decorator)
        self.below = list(own(node))
        self.loads, self.stores = {}, {}
        for name in self.below:
            if isinstance(name, ast.Name):
                counts = self.loads if isinstance(name.ctx, ast.Load) else self.stores
                counts[name.id] = counts.get(name.id, 0) + 1
        self.inner = {
            name.id
            for part in self.below
            if isinstance(part, FUNCTIONS + (ast.ClassDef, ast.Lambda))
            for name in ast.walk(part)
            if isinstance(name, ast.Name)
        }
        self.arguments = {argument.arg for argument in node.args.args + node.args.kwonlyargs}
        self.definitions, self.looped = {}, {}
        self.reached = list(self._reached(node.body))
        # Statements that every run enters unless it fails before, or unless a context manager swallows an exception.
        self.entered = []

    def _read_parameters(self, decorator):
        if len(decorator.args) < 2:
            return
        known, names = literal(decorator.args[0])
        if not known:
            return
        names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
        for row in getattr(decorator.args[1], "elts", []):
            if name_of(row) == "param" and isinstance(row, ast.Call):
                row = row.args[0] if len(names) == 1 and len(row.args) == 1 else ast.Tuple(row.args, None)
            values = [row] if len(names) == 1 else getattr(row, "elts", [])
            if len(values) == len(names):
                for name, value in zip(names, values):
                    self.parametrized.setdefault(name, []).append(value)

    @property
    def is_certain(self):
        """Whether every run reaches the end of the function, which is neither a generator nor skipped."""
        stops = (ast.Return, ast.Yield, ast.YieldFrom)
        called = [name_of(part) for part in self.below if isinstance(part, ast.Call)]
        return not any(isinstance(part, stops) for part in self.below) and "skip" not in called

    def _reached(self, body):
        """Yields the statements, in order, that every run reaches unless it fails before."""
        for statement in body:
            yield statement
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                target = statement.targets[0]
                if isinstance(target, ast.Name):
                    self.definitions[target.id] = statement.value
            elif isinstance(statement, (ast.With, ast.AsyncWith)):
                if all(name_of(item.context_expr) in words["contexts"] for item in statement.items):
                    for inner in self._reached(statement.body):
                        yield inner
            elif isinstance(statement, ast.For) and not statement.orelse:
                breaks = any(isinstance(part, (ast.Break, ast.Continue)) for part in own(statement))
                rows, is_of_test = self._rows(statement.iter)
                if breaks or not rows or any(isinstance(row, ast.Starred) for row in rows):
                    continue
                names = getattr(statement.target, "elts", [statement.target])
                for at, name in enumerate(names):
                    if isinstance(name, ast.Name) and self.stores.get(name.id) == 1:
                        one = isinstance(statement.target, ast.Name)
                        values = [row if one else getattr(row, "elts", [None] * len(names))[at : at + 1] for row in rows]
                        values = [value if one else (value[0] if value else None) for value in values]
                        if is_of_test and None not in values:
                            self.looped[name.id] = values
                for inner in self._reached(statement.body):
                    yield inner

    def _rows(self, node):
        """Returns the literal rows that a loop iterates over, and whether they are in the test itself."""
        is_items = isinstance(node, ast.Call) and name_of(node) == "items" and not node.args
        if is_items and isinstance(node.func, ast.Attribute):
            node = node.func.value
        is_of_test = True
        if isinstance(node, ast.Name) and node.id in self.stores:
            node = self.definitions.get(node.id) if self.stores[node.id] == 1 else None
        elif isinstance(node, ast.Name) and node.id not in self.arguments:
            is_of_test = False
            node = (self._module_constant(node.id) or [None])[0]
        if is_items and isinstance(node, ast.Dict) and None not in node.keys:
            return [ast.Tuple(list(pair), None) for pair in zip(node.keys, node.values)], is_of_test
        return ([] if is_items else getattr(node, "elts", [])), is_of_test

    # Edits. Each canary uses one of them.

    def in_branches(self):
        """Yields lists of edits with one edit for each branch that has an expectation. A list makes one canary."""
        if MARKS and self.is_steady and not self._is_generator():
            found = {}
            certain = self.reached if self.is_certain else []
            for branch, statement in self._branches(self.node.body, 0, certain):
                self.statement, about = statement, bool(words["work"] & self._names_in(statement))
                lines = [part.lineno for part in ast.walk(statement) if hasattr(part, "lineno")]
                lines = [statement.lineno, getattr(statement, "end_lineno", None) or max(lines)]
                kinds = {}
                for edit in self._edits_of_statement(statement):
                    # A run's arguments differ from run to run, and an edit elsewhere may affect another branch.
                    is_near = statement.lineno <= self.source.line(edit.start) <= lines[1]
                    if edit.parameter is None and is_near and edit.kind != "raises":
                        kinds.setdefault(edit.kind, []).append((edit._replace(given=None), lines, about))
                for kind in KINDS:
                    if kind in kinds and branch not in found:
                        found[branch] = chance.choice(kinds[kind])
            if found:
                yield [found[branch] for branch in sorted(found)]

    def _is_generator(self):
        """Whether the function is a generator, which runs only as far as its caller iterates."""
        return any(isinstance(part, (ast.Yield, ast.YieldFrom)) for part in self.below)

    def _branches(self, body, branch, certain):
        """Yields the statements that some but not all runs reach, each with a number for its branch."""
        for statement in body:
            if not any(statement is one for one in certain):
                yield branch, statement
            if isinstance(statement, FUNCTIONS + (ast.ClassDef,)):
                continue
            if isinstance(statement, (ast.With, ast.AsyncWith)):
                names = [name_of(item.context_expr).lower() for item in statement.items]
                if any(part in name for name in names for part in CATCHERS):
                    continue  # The test may expect an exception here.
                parts = [statement.body]
                if any(statement is one for one in certain + self.entered):
                    self.entered += statement.body
            elif isinstance(statement, ast.Try):
                caught = [name for one in statement.handlers for name in caught_by(one)]
                hides = not CATCH_ALL.isdisjoint(caught)
                parts = [] if hides else [statement.body]
                parts += [one.body for one in statement.handlers] + [statement.orelse, statement.finalbody]
            else:
                parts = [getattr(statement, "body", None), getattr(statement, "orelse", None)]
            for part in parts:
                if isinstance(part, list) and part:
                    for found in self._branches(part, part[0].lineno, certain):
                        yield found

    def edits(self):
        """Yields edits. Each comes with the lines of the statement that it makes fail, and with whether that statement
        is about the work."""
        if self.is_certain:
            for statement in self.reached if self.is_steady else ():
                self.statement, about = statement, bool(words["work"] & self._names_in(statement))
                lines = [part.lineno for part in ast.walk(statement) if hasattr(part, "lineno")]
                lines = [statement.lineno, getattr(statement, "end_lineno", None) or max(lines)]
                for edit in self._edits_of_statement(statement):
                    yield edit, lines, about
            last = [one for one in self.reached if isinstance(one, PLAIN)]
            if last:
                start = self._starts_line(last[-1])
                if start is not None:
                    edit = Edit(start, start, b"assert False; ", "fail")
                    yield edit, [last[-1].lineno, last[-1].lineno], False

    def _names_in(self, statement):
        """Returns the names that a statement involves, also through the test's own variables."""
        found, rest = set(), [statement]
        while rest:
            for part in ast.walk(rest.pop()):
                name = getattr(part, "id", getattr(part, "attr", None))
                if name in self.definitions and name not in found:
                    rest.append(self.definitions[name])
                found.add(name)
        return found

    def _starts_line(self, statement):
        """Returns the start of a simple statement, if it is the first on its line."""
        at = self.source.start(statement)
        before = self.source.text[self.source.starts[statement.lineno - 1] : at]
        return at if isinstance(statement, PLAIN) and not before.strip() else None

    def _edits_of_statement(self, statement):
        if isinstance(statement, ast.Assert):
            return self._edits_of_condition(statement.test)
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            return (edit for item in statement.items for edit in self._raises(item.context_expr))
        if isinstance(statement, ast.Expr):
            value = statement.value
            if isinstance(value, ast.Await):
                value = value.value
            if isinstance(value, ast.Call):
                return self._edits_of_call(value)
        return ()

    def _raises(self, call):
        name = name_of(call) if isinstance(call, ast.Call) and call.args else ""
        is_warning = name in words["warners"]
        if not is_warning and name not in words["raisers"]:
            return
        expected = call.args[0]
        if not isinstance(expected, (ast.Name, ast.Attribute)):
            return
        start, end = self.source.start(expected), self.source.end(expected)
        others = sorted(words["warnings" if is_warning else "exceptions"] - {name_of(expected)})
        if end is not None and others:
            yield Edit(start, end, chance.choice(others).encode("ascii"), "raises")
        written = [keyword.value for keyword in call.keywords if keyword.arg == "match"]
        written += call.args[1:2] if name_of(call).endswith(("Regex", "Regexp")) else []
        for edit in self._edits_of_message(written[0]) if written else ():
            yield edit

    def _edits_of_message(self, node):
        """Yields an edit of a pattern that is plain text: a letter inside a word becomes one that few words
        have. An honest message may well contain another number or another short word of the pattern."""
        known, value = constant(node)
        start = self.source.start(node) if known and isinstance(value, str) else None
        token = None if start is None else self._token(start, value)
        words = [] if token is None else list(re.finditer(rb"[A-Za-z]{5,}", token))
        if words and PLAIN_PATTERN.match(value) and value.encode("utf-8") in token:
            at = start + chance.choice(words).start() + 2
            was = self.source.text[at : at + 1]
            yield Edit(at, at + 1, chance.choice([new for new in (b"j", b"q", b"x", b"z") if new != was.lower()]), "raises")

    def _edits_of_call(self, call):
        name, arguments = name_of(call), call.args
        for edit in self._raises(call):
            yield edit
        if any(isinstance(argument, ast.Starred) for argument in arguments):
            return
        near = name in words["approximate"]
        if name in words["equalities"] and len(arguments) == 2 and not (near and call.keywords):
            for edit in self._edits_of_pair(arguments[0], arguments[1], near):
                yield edit
        if name in ("assertTrue", "assert_") and arguments:
            for edit in self._edits_of_condition(arguments[0]):
                yield edit
        if name in ("assertLess", "assertLessEqual") and len(arguments) >= 2:
            for edit in self._edits_of_difference(arguments[0], arguments[1], ast.Lt):
                yield edit
        if name == "assertIn" and len(arguments) >= 2:
            for edit in self._needle(arguments[0]):
                yield edit
        if name == "assertIsInstance" and len(arguments) >= 2:
            for edit in self._other_type(arguments[1]):
                yield edit
        for table, kind in ((ORDERS, "operator"), (NEGATIONS, "negated")):
            if name not in table or not isinstance(call.func, ast.Attribute):
                continue
            end = self.source.end(call.func)
            if end is not None and self.source.text.endswith(name.encode("ascii"), 0, end):
                yield Edit(end - len(name), end, table[name].encode("ascii"), kind)

    def _edits_of_condition(self, test):
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            for part in test.values:
                for edit in self._edits_of_condition(part):
                    yield edit
        elif isinstance(test, ast.Compare) and len(test.ops) == 1:
            left, right, op = test.left, test.comparators[0], type(test.ops[0])
            differences = list(self._edits_of_difference(left, right, op))
            for edit in differences:
                yield edit
            # In a rounded difference, only a change to the subtracted number tests the value.
            if op is ast.Eq and not differences:
                for edit in self._edits_of_pair(left, right, False):
                    yield edit
            elif op is ast.In:
                for edit in self._needle(left):
                    yield edit
            elif op is ast.Is and constant(right)[1] in (True, False) and constant(right)[0]:
                for edit in self._leaves(right, False):
                    yield Edit(*edit, "value")
            for edit in self._flip(left, right, op):
                yield edit
            start = self.source.start(test)
            if start is not None:
                yield Edit(start, start, b"not ", "negated")
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            start = self.source.start(test)
            if self.source.text.startswith(b"not ", start):
                yield Edit(start, start + 4, b"", "negated")
        elif isinstance(test, (ast.Call, ast.Name, ast.Attribute, ast.Subscript)):
            for edit in self._edits_of_predicate(test):
                yield edit
            name = name_of(test) if isinstance(test, ast.Call) else ""
            if name == "isinstance" and len(test.args) == 2:
                for edit in self._other_type(test.args[1]):
                    yield edit
            if name in ("startswith", "endswith") and len(test.args) == 1:
                for edit in self._leaves(test.args[0], False, False):
                    yield Edit(*edit, "value")
            start = self.source.start(test)
            if start is not None:
                yield Edit(start, start, b"not ", "negated")

    def _edits_of_predicate(self, test):
        """Yields edits of a known value that a function compares: `allclose(found, [1.0, 2.0])`, or
        `isclose(found, 2.5).all()`. An object that controls its own differences passes the negated condition's
        canary, but not this one."""
        while isinstance(test, ast.Call) and name_of(test) == "all" and not test.keywords:
            inner = test.args if isinstance(test.func, ast.Name) or test.args else [getattr(test.func, "value", None)]
            if len(inner) != 1:
                return
            test = inner[0]
        name = name_of(test) if isinstance(test, ast.Call) else ""
        if name not in words["predicates"] or len(test.args) != 2 or test.keywords:
            return
        for side in (test.args[1], test.args[0]):
            found = list(self._expected(side, name not in words["exact"]))
            for edit in found:
                yield edit
            if found:
                return

    @property
    def is_steady(self):
        """Whether the test depends on neither the clock nor chance. Otherwise a second run may give another result."""
        names = {getattr(part, "id", getattr(part, "attr", "")) for part in self.below} | self.arguments
        parts = {word.lower() for name in names for word in WORD.findall(str(name))}
        return not parts & words["unsteady"]

    def _edits_of_difference(self, left, right, op):
        """Yields edits of a number that a value must be close to: `abs(found - 2.5) < 1e-9` or
        `round(found - 2.5, 7) == 0`. An object whose difference to anything is zero passes each of these,
        but fails the reversed comparison."""
        small, bound = (right, left) if op in (ast.Gt, ast.GtE) else (left, right)
        if not isinstance(small, ast.Call) or small.keywords or not small.args:
            return
        name, limit = name_of(small), literal(bound)[1]
        digits = literal(small.args[1])[1] if len(small.args) == 2 else 0
        if op is ast.Eq and name == "round" and limit == 0 and isinstance(digits, int):
            limit = 10.0 ** -digits
        elif op is ast.Eq or name not in ("abs", "fabs") or len(small.args) != 1 or type(limit) not in (int, float):
            return
        difference = small.args[0]
        if not isinstance(difference, ast.BinOp) or not isinstance(difference.op, ast.Sub):
            return
        for side in (difference.right, difference.left):
            value = side.operand if isinstance(side, ast.UnaryOp) else side
            known, was = constant(value)
            for start, end, new in self._leaves(side, False) if known else ():
                if isinstance(was, (int, float)) and abs(float(new) - was) > 2 * abs(limit):
                    yield Edit(start, end, new, "value")

    def _flip(self, left, right, op):
        end, start = self.source.end(left), self.source.start(right)
        if op not in FLIPS or end is None or start is None or not hasattr(left, "end_lineno"):
            return
        written, other = FLIPS[op]
        found = re.match(r"^([\s)]*)(%s)([\s(]*)$" % written, self.source.text[end:start].decode("utf-8", "replace"))
        if found and "\n" not in found.group(2):
            at = end + len(found.group(1).encode("utf-8"))
            yield Edit(at, at + len(found.group(2)), other.encode("ascii"), "operator")

    def _other_type(self, node):
        if isinstance(node, ast.Name) and node.id in OTHER_TYPE:
            start = self.source.start(node)
            yield Edit(start, start + len(node.id), OTHER_TYPE[node.id].encode("ascii"), "value")

    def _needle(self, node):
        known, value = constant(node)
        # Another short text may also be contained.
        if known and isinstance(value, str) and len(value) >= 5:
            for edit in self._leaves(node, False, False):
                yield Edit(*edit, "value")
        elif known and isinstance(value, int) and not isinstance(value, bool):
            for edit in self._leaves(node, True):
                yield Edit(*edit, "value")
        else:
            start, end = self.source.start(node), self.source.end(node)
            if start is not None and end is not None and not isinstance(node, ast.GeneratorExp):
                ending = "".join(chance.choice("bcdfghjklmnpqrstvwxz") for _ in range(6))
                new = b"(str(" + self.source.text[start:end] + b") + '" + ending.encode("ascii") + b"')"
                yield Edit(start, end, new, "wrapped")

    def _edits_of_pair(self, left, right, near):
        found = []
        for side in (right, left):
            found = list(self._expected(side, near))
            if found:
                break
        for edit in found:
            yield edit
        # If neither value is known, one is put into a wrapper that no honest value equals.
        start, end = self.source.start(right), self.source.end(right)
        if not found and not near and start is not None and end is not None and hasattr(right, "end_lineno"):
            text = self.source.text[start:end]
            head, tail = chance.choice([(b"str(", b") + 's'"), (b"{'value': ", b"}")])
            generator = isinstance(right, ast.GeneratorExp)
            at = None
            if isinstance(right, ast.Name) and self._is_read_once(right.id):
                is_own = right.id in self.arguments or right.id in self.stores
                at = self._starts_line(self.statement) if is_own else None
            if at is not None:
                yield Edit(at, at, text + b" = " + head + text + tail + b"; ", "wrapped")
            elif b"\n" not in text and not generator:
                yield Edit(start, end, b"(" + head + text + tail + b")", "wrapped")

    def _is_read_once(self, name):
        """Whether this is the only place where the test reads a name."""
        return name not in self.inner and self.loads.get(name) == 1

    def _expected(self, node, near):
        """Yields edits of a known value, wherever it is defined."""
        if isinstance(node, ast.Call) and name_of(node) == "approx" and len(node.args) == 1:
            if isinstance(node.args[0], ast.Name) and not node.keywords:
                node, near = node.args[0], True
        if not isinstance(node, ast.Name):
            for edit in self._leaves(node, near):
                yield Edit(*edit, "value")
            return
        name = node.id
        if name in self.inner:
            return
        if name in self.arguments:
            values = self.parametrized.get(name) or self._fixture(name)
            by_parameter = name in self.parametrized
        elif name in self.looped:
            values, by_parameter = None, False
            if self.loads.get(name) == 1:
                for value in self.looped[name]:
                    for edit in self._leaves(value, near):
                        yield Edit(*edit, "value")
            return
        elif name in self.stores:
            value = self.definitions.get(name)
            values, by_parameter = [], False
            if value is None or self.stores[name] != 1:
                return
            if self.loads.get(name) == 1:
                for edit in self._leaves(value, near):
                    yield Edit(*edit, "value")
                return
            if constant(value)[0]:
                values = [value]
        else:
            values, by_parameter = self._module_constant(name), False
        start = self.source.start(node)
        for value in values or ():
            known, was = literal(value)
            new = self._other_literal(value, near) if known else None
            if new is not None:
                parameter = [name, repr(was)] if by_parameter else None
                place = None
                if self._is_read_once(name) and name not in self.stores:
                    if name in self.arguments:
                        place = "argument"
                    elif name not in self.source.helped:
                        place = "module"
                given = [place, name, new.decode("utf-8")] if place else None
                yield Edit(start, start + len(name.encode("utf-8")), new, "value", parameter, given)

    def _other_literal(self, node, near):
        """Returns source text, on one line, for a value that differs from the literal's."""
        known, was = literal(node)
        written = repr(was)
        if not known or len(written) > 400 or "\n" in written or isinstance(was, type(None)):
            return None
        try:
            copy = Source(written)
        except (SyntaxError, ValueError):
            return None
        test = Test.__new__(Test)
        test.source = copy
        edits = list(test._leaves(copy.tree.body[0].value, near))
        if not edits:
            return None
        start, end, new = chance.choice(edits)
        return copy.text[:start] + new + copy.text[end:]

    def _module_constant(self, name):
        for statement in self.source.tree.body:
            if isinstance(statement, ast.Assign) and self.source.stored.get(name) == 1:
                targets = [getattr(target, "id", None) for target in statement.targets]
                if targets == [name]:
                    return [statement.value]
        return []

    def _fixture(self, name):
        """Returns the value of a fixture that only returns a literal."""
        bodies = list(self.scope) + [tree.body for tree in self.conftests]
        for body in bodies:
            for node in body:
                if isinstance(node, FUNCTIONS) and node.name == name:
                    is_fixture = any(name_of(one) == "fixture" for one in node.decorator_list)
                    plain = len(node.decorator_list) == 1 and not isinstance(node.decorator_list[0], ast.Call)
                    last = node.body[-1]
                    if is_fixture and plain and len(node.body) == 1 and isinstance(last, ast.Return) and last.value:
                        return [last.value]
                    return []
        return []

    def _leaves(self, node, near, is_whole=True):
        """Returns edits of the literals that a value consists of. `is_whole` says whether the value is compared with
        another value as a whole, rather than searched for in it."""
        pairs = []
        is_whole = is_whole and not any(isinstance(part, ast.Call) for part in ast.walk(node))
        for leaf, is_near in self._atoms(node, near):
            start, value = self.source.start(leaf), constant(leaf)[1]
            if start is None:
                continue
            token, new = self._token(start, value), None
            if token is None:
                continue
            if isinstance(value, (str, bytes)):
                new = other_text(token, is_whole)
            elif isinstance(value, (bool, int, float)):
                new = other_number(token, value, is_near)
            if new is not None and self._differs(node, start, token, new):
                pairs.append((start, start + len(token), new.encode("utf-8")))
        return pairs

    def _token(self, start, value):
        text = self.source.text
        if isinstance(value, bool):
            written = str(value).encode("ascii")
            return written if text.startswith(written, start) else None
        if isinstance(value, (int, float)):
            found = NUMBER.match(text, start)
            return found.group() if found else None
        if not isinstance(value, (str, bytes)):
            return None
        found = STRING.match(text, start)
        if not found:
            return None
        quote, at = found.group(2), found.end()
        while not text.startswith(quote, at):
            if at >= len(text):
                return None
            at += 2 if text[at : at + 1] == b"\\" else 1
        return text[start : at + len(quote)]

    def _atoms(self, node, near):
        if constant(node)[0]:
            yield node, near
        elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            for part in node.elts:
                for atom in self._atoms(part, near):
                    yield atom
        elif isinstance(node, ast.Dict):
            for part in [key for key in node.keys if key is not None] + node.values:
                for atom in self._atoms(part, near):
                    yield atom
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            for atom in self._atoms(node.operand, near):
                yield atom
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            for part in (node.left, node.right):
                if isinstance(constant(part)[1], (str, bytes)) or isinstance(part, ast.BinOp):
                    for atom in self._atoms(part, near):
                        yield atom
        elif isinstance(node, ast.Call) and name_of(node) == "approx":
            if len(node.args) == 1 and not node.keywords:
                for atom in self._atoms(node.args[0], True):
                    yield atom
        elif isinstance(node, ast.Call) and name_of(node) in words["values"] and node.args:
            for atom in self._atoms(node.args[0], near):
                yield atom

    def _differs(self, node, start, token, new):
        """Whether a literal value differs after the edit. Values that are not literals always count as different."""
        begin, end = self.source.start(node), self.source.end(node)
        known, was = literal(node)
        if not known:
            return True
        if begin is None or end is None:
            known, now = literal(new)
            was = literal(token.decode("utf-8"))[1]
            return known and now != was
        text = self.source.text[begin : start] + new.encode("utf-8") + self.source.text[start + len(token) : end]
        known, now = literal(text.decode("utf-8").strip())
        if not known:  # The value spans several lines without brackets.
            known, now = literal("(" + text.decode("utf-8") + ")")
        return known and now != was and type(now) is type(was)


# Selection of functions.


def allowed(decorators):
    for decorator in decorators:
        name = name_of(decorator)
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        is_mark = isinstance(getattr(target, "value", None), ast.Attribute) and target.value.attr == "mark"
        if name in words["marks"] or not (is_mark or name in words["decorators"]):
            return False
    return True


def find(tree, path, depth=0):
    """Returns the function of a test id as (path of the function, node, bodies around it). Also searches base classes
    in the same file."""
    body, bodies = tree.body, [tree.body]
    for at, part in enumerate(path):
        found = [node for node in body if getattr(node, "name", None) == part]
        if not found:
            return None
        node = found[-1]
        if isinstance(node, FUNCTIONS):
            last = at == len(path) - 1
            return (path, node, bodies) if last and len(found) == 1 else None
        if not isinstance(node, ast.ClassDef) or not allowed(node.decorator_list):
            return None
        own_names = [inner.name for inner in node.body if isinstance(inner, FUNCTIONS)]
        if at == len(path) - 2 and path[-1] not in own_names and depth < 5:
            for base in node.bases:
                if isinstance(base, ast.Name):
                    found = find(tree, [base.id, path[-1]], depth + 1)
                    if found:
                        return found
            return None
        body, bodies = node.body, [node.body] + bodies
    return None


def compares(node):
    for part in ast.walk(node):
        if isinstance(part, ast.Compare) and not all(isinstance(op, (ast.Is, ast.IsNot)) for op in part.ops):
            return True
        if isinstance(part, ast.Call):
            name = name_of(part).lower()
            if name.startswith(("assert", "check", "verify", "expect", "compare")) or name in words["raisers"]:
                if name not in UNTRIED and not name.startswith(("assertisinst", "assert_called")):
                    return True
    return False


def parses(source, node, text, growth):
    """Whether the function still parses after edits that made it longer by `growth`."""
    last = getattr(node, "end_lineno", None)
    if last is not None:
        first = min([node.lineno] + [one.lineno for one in node.decorator_list])
        segment = text[source.starts[first - 1] : source.starts[last] + growth]
        text = b"if 1:\n" + segment if segment[:1].isspace() else segment
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def candidates_of_function(source, name, function, found, conftests):
    path, node, bodies = found
    kinds = {}
    test = Test(source, node, bodies, conftests)
    for edit, lines, about in test.edits():
        if source.text.count(b"\n", edit.start, edit.end) == edit.new.count(b"\n"):
            kinds.setdefault(edit.kind, []).append((edit, lines, about))
    made = []
    for kind, edits in sorted(kinds.items()):
        chance.shuffle(edits)
        edits.sort(key=lambda found: not found[-1])
        made += [[one] for one in edits[: 3 if kind == "value" else 1]]
    if not any(edit.kind not in ("fail", "negated") for [(edit, _, _)] in made):
        made += [sorted(all_of) for all_of in test.in_branches()]
    for pieces in made:
        text, growth = source.text, 0
        if any(text.count(b"\n", edit.start, edit.end) != edit.new.count(b"\n") for edit, _, _ in pieces):
            continue
        for edit, _, _ in reversed(pieces):
            text = text[: edit.start] + edit.new + text[edit.end :]
            growth += len(edit.new) - (edit.end - edit.start)
        if not parses(source, node, text, growth):
            continue
        told = [
            {
                "line": source.line(edit.start),
                "fails": lines,
                "start": edit.start,
                "end": edit.end,
                "was": source.text[edit.start : edit.end].decode("utf-8"),
                "now": edit.new.decode("utf-8"),
            }
            for edit, lines, _ in pieces
        ]
        first, in_branches = pieces[0][0], len(pieces) > 1 or pieces[0][1][0] not in certain_lines(test)
        one = {
            "file": name,
            "function": function,
            "path": path,
            "kind": max((edit.kind for edit, _, _ in pieces), key=RANKS.index),
            "parameter": first.parameter,
            "given": first.given,
            "about": any(about for _, _, about in pieces),
            "more": told[1:],
            "marks": sorted({lines[0] for _, lines, _ in pieces}) if in_branches else [],
            # If a passing run reached none of these lines, an exception in a `with` statement was swallowed.
            "entered": in_branches and any(one.lineno == lines[0] for one in test.entered for _, lines, _ in pieces),
        }
        one.update(told[0])
        yield one


def certain_lines(test):
    return {statement.lineno for statement in test.reached} if test.is_certain else set()


def tests(tree):
    """Returns all test functions of a file, for a file without named tests."""
    found = []
    for node in tree.body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        for function in inner:
            if isinstance(function, FUNCTIONS) and function.name.startswith("test"):
                found.append(function.name if function is node else node.name + "::" + function.name)
    chance.shuffle(found)
    return found


def candidates_of_group(files):
    """Collects candidates until enough tests have a good one. Files and functions are already shuffled."""
    made, comparing, good = [], 0, 0
    for file in files:
        try:
            source = Source(file["text"])
            conftests = [ast.parse(text) for text in file["conftests"]]
        except (SyntaxError, ValueError, RecursionError):
            continue
        leaning = words["ordered"] & source.named
        for function in file["functions"] or tests(source.tree):
            if good >= order["enough"]:
                break
            found = find(source.tree, function.split("::"))
            if found is None:
                continue
            path, node, _ = found
            comparing += compares(node)
            # If the file itself calls or passes on the function, it may also run where its result does not count.
            if path[-1] in source.named or leaning or not allowed(node.decorator_list):
                continue
            ones = list(candidates_of_function(source, file["name"], function, found, conftests))
            good += any(one["kind"] not in ("fail", "negated") for one in ones)
            made += ones
    return {"canaries": made, "compares": comparing}


json.dump({group: candidates_of_group(files) for group, files in sorted(order["groups"].items())}, sys.stdout)
