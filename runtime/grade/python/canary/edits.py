"""Makes the edits of a test function that make the function fail."""

import ast
import collections
import re
import sys

from .literals import Literals
from .request import chance, words
from .source import constant, literal, name_of

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
PLAIN = (ast.Expr, ast.Assign, ast.AugAssign, ast.Assert, ast.Pass, ast.Delete, ast.Raise)
OTHER_TYPE = {
    "str": "bytes", "bytes": "str", "int": "str", "float": "str", "bool": "str", "complex": "str",
    "list": "tuple", "tuple": "list", "dict": "list", "set": "list", "frozenset": "list",
}
KINDS = ("value", "wrapped", "operator", "negated")
# Marks are inserted into copies of compiled code. Code objects have a `replace` method since Python 3.8.
MARKS = sys.version_info >= (3, 8)
PLAIN_PATTERN = re.compile(r"[^\\.^$*+?{}\[\]()|]+\Z")

# Replaces the bytes from `start` to `end` with `new`. `parameter` is the name and value of the parameter whose run is
# copied. `given` is the value to replace instead of the code: where it is, its name, the literal.
Edit = collections.namedtuple("Edit", "start end new kind parameter given")
Edit.__new__.__defaults__ = (None, None)


class Edits:
    """The edits of one function. Each canary uses one of them, or one for each branch."""

    def __init__(self, test):
        self._test, self._source, self._literals = test, test.source, Literals(test.source)
        # The statement that the current edits make fail.
        self._statement = None

    def in_branches(self):
        """Yields lists of edits with one edit for each branch that has an expectation. A list makes one canary."""
        if MARKS and self._test.is_steady and not self._test.is_generator():
            found = {}
            certain = self._test.reached if self._test.is_certain else []
            for branch, statement in self._test.branches(self._test.node.body, 0, certain):
                self._statement, about = statement, bool(words["work"] & self._test.names_in(statement))
                lines = [part.lineno for part in ast.walk(statement) if hasattr(part, "lineno")]
                lines = [statement.lineno, getattr(statement, "end_lineno", None) or max(lines)]
                kinds = {}
                for edit in self._edits_of_statement(statement):
                    # A run's arguments differ from run to run, and an edit elsewhere may affect another branch.
                    is_near = statement.lineno <= self._source.line(edit.start) <= lines[1]
                    if edit.parameter is None and is_near and edit.kind != "raises":
                        kinds.setdefault(edit.kind, []).append((edit._replace(given=None), lines, about))
                for kind in KINDS:
                    if kind in kinds and branch not in found:
                        found[branch] = chance.choice(kinds[kind])
            if found:
                yield [found[branch] for branch in sorted(found)]

    def edits(self):
        """Yields edits. Each comes with the lines of the statement that it makes fail, and with whether that statement
        is about the work."""
        if self._test.is_certain:
            for statement in self._test.reached if self._test.is_steady else ():
                self._statement, about = statement, bool(words["work"] & self._test.names_in(statement))
                lines = [part.lineno for part in ast.walk(statement) if hasattr(part, "lineno")]
                lines = [statement.lineno, getattr(statement, "end_lineno", None) or max(lines)]
                for edit in self._edits_of_statement(statement):
                    yield edit, lines, about
            last = [one for one in self._test.reached if isinstance(one, PLAIN)]
            if last:
                start = self._starts_line(last[-1])
                if start is not None:
                    edit = Edit(start, start, b"assert False; ", "fail")
                    yield edit, [last[-1].lineno, last[-1].lineno], False

    def _starts_line(self, statement):
        """Returns the start of a simple statement, if it is the first on its line."""
        at = self._source.start(statement)
        before = self._source.text[self._source.starts[statement.lineno - 1] : at]
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
        start, end = self._source.start(expected), self._source.end(expected)
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
        start = self._source.start(node) if known and isinstance(value, str) else None
        token = None if start is None else self._literals.token(start, value)
        words = [] if token is None else list(re.finditer(rb"[A-Za-z]{5,}", token))
        if words and PLAIN_PATTERN.match(value) and value.encode("utf-8") in token:
            at = start + chance.choice(words).start() + 2
            was = self._source.text[at : at + 1]
            new = chance.choice([new for new in (b"j", b"q", b"x", b"z") if new != was.lower()])
            yield Edit(at, at + 1, new, "raises")

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
            end = self._source.end(call.func)
            if end is not None and self._source.text.endswith(name.encode("ascii"), 0, end):
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
                for edit in self._literals.leaves(right, False):
                    yield Edit(*edit, "value")
            for edit in self._flip(left, right, op):
                yield edit
            start = self._source.start(test)
            if start is not None:
                yield Edit(start, start, b"not ", "negated")
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            start = self._source.start(test)
            if self._source.text.startswith(b"not ", start):
                yield Edit(start, start + 4, b"", "negated")
        elif isinstance(test, (ast.Call, ast.Name, ast.Attribute, ast.Subscript)):
            for edit in self._edits_of_predicate(test):
                yield edit
            name = name_of(test) if isinstance(test, ast.Call) else ""
            if name == "isinstance" and len(test.args) == 2:
                for edit in self._other_type(test.args[1]):
                    yield edit
            if name in ("startswith", "endswith") and len(test.args) == 1:
                for edit in self._literals.leaves(test.args[0], False, False):
                    yield Edit(*edit, "value")
            start = self._source.start(test)
            if start is not None:
                yield Edit(start, start, b"not ", "negated")

    def _edits_of_predicate(self, test):
        """Yields edits of a known value that a function compares: `allclose(found, [1.0, 2.0])`, or
        `isclose(found, 2.5).all()`. An object that controls its own differences passes a canary with the negated
        condition, but not a canary with one of these edits."""
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
            for start, end, new in self._literals.leaves(side, False) if known else ():
                if isinstance(was, (int, float)) and abs(float(new) - was) > 2 * abs(limit):
                    yield Edit(start, end, new, "value")

    def _flip(self, left, right, op):
        end, start = self._source.end(left), self._source.start(right)
        if op not in FLIPS or end is None or start is None or not hasattr(left, "end_lineno"):
            return
        written, other = FLIPS[op]
        found = re.match(r"^([\s)]*)(%s)([\s(]*)$" % written, self._source.text[end:start].decode("utf-8", "replace"))
        if found and "\n" not in found.group(2):
            at = end + len(found.group(1).encode("utf-8"))
            yield Edit(at, at + len(found.group(2)), other.encode("ascii"), "operator")

    def _other_type(self, node):
        if isinstance(node, ast.Name) and node.id in OTHER_TYPE:
            start = self._source.start(node)
            yield Edit(start, start + len(node.id), OTHER_TYPE[node.id].encode("ascii"), "value")

    def _needle(self, node):
        known, value = constant(node)
        # Another short text may also be contained.
        if known and isinstance(value, str) and len(value) >= 5:
            for edit in self._literals.leaves(node, False, False):
                yield Edit(*edit, "value")
        elif known and isinstance(value, int) and not isinstance(value, bool):
            for edit in self._literals.leaves(node, True):
                yield Edit(*edit, "value")
        else:
            start, end = self._source.start(node), self._source.end(node)
            if start is not None and end is not None and not isinstance(node, ast.GeneratorExp):
                ending = "".join(chance.choice("bcdfghjklmnpqrstvwxz") for _ in range(6))
                new = b"(str(" + self._source.text[start:end] + b") + '" + ending.encode("ascii") + b"')"
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
        start, end = self._source.start(right), self._source.end(right)
        if not found and not near and start is not None and end is not None and hasattr(right, "end_lineno"):
            text = self._source.text[start:end]
            head, tail = chance.choice([(b"str(", b") + 's'"), (b"{'value': ", b"}")])
            generator = isinstance(right, ast.GeneratorExp)
            at = None
            if isinstance(right, ast.Name) and self._test.is_read_once(right.id):
                is_own = right.id in self._test.arguments or right.id in self._test.stores
                at = self._starts_line(self._statement) if is_own else None
            if at is not None:
                yield Edit(at, at, text + b" = " + head + text + tail + b"; ", "wrapped")
            elif b"\n" not in text and not generator:
                yield Edit(start, end, b"(" + head + text + tail + b")", "wrapped")

    def _expected(self, node, near):
        """Yields edits of a known value, wherever it is defined."""
        if isinstance(node, ast.Call) and name_of(node) == "approx" and len(node.args) == 1:
            if isinstance(node.args[0], ast.Name) and not node.keywords:
                node, near = node.args[0], True
        if not isinstance(node, ast.Name):
            for edit in self._literals.leaves(node, near):
                yield Edit(*edit, "value")
            return
        name = node.id
        if name in self._test.inner:
            return
        if name in self._test.arguments:
            values = self._test.parametrized.get(name) or self._test.fixture(name)
            by_parameter = name in self._test.parametrized
        elif name in self._test.looped:
            values, by_parameter = None, False
            if self._test.loads.get(name) == 1:
                for value in self._test.looped[name]:
                    for edit in self._literals.leaves(value, near):
                        yield Edit(*edit, "value")
            return
        elif name in self._test.stores:
            value = self._test.definitions.get(name)
            values, by_parameter = [], False
            if value is None or self._test.stores[name] != 1:
                return
            if self._test.loads.get(name) == 1:
                for edit in self._literals.leaves(value, near):
                    yield Edit(*edit, "value")
                return
            if constant(value)[0]:
                values = [value]
        else:
            values, by_parameter = self._test.module_constant(name), False
        start = self._source.start(node)
        for value in values or ():
            known, was = literal(value)
            new = self._literals.other_literal(value, near) if known else None
            if new is not None:
                parameter = [name, repr(was)] if by_parameter else None
                place = None
                if self._test.is_read_once(name) and name not in self._test.stores:
                    if name in self._test.arguments:
                        place = "argument"
                    elif name not in self._source.helped:
                        place = "module"
                given = [place, name, new.decode("utf-8")] if place else None
                yield Edit(start, start + len(name.encode("utf-8")), new, "value", parameter, given)
