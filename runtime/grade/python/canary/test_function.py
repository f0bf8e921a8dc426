"""A test function: which statements its runs reach, and where its values come from."""

import ast
import re

from .request import words
from .source import FUNCTIONS, caught_by, literal, name_of, own

# Parts of the names of context managers that may catch exceptions.
CATCHERS = ("raise", "catch", "suppress", "except", "ignor", "fail", "expect", "warn")
CATCH_ALL = frozenset(("AssertionError", "Exception", "BaseException"))
WORD = re.compile(r"[A-Z]?[a-z]+[0-9]*|[A-Z]+")


class TestFunction:
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
                        missing = [None] * len(names)
                        values = [row if one else getattr(row, "elts", missing)[at : at + 1] for row in rows]
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
            node = (self.module_constant(node.id) or [None])[0]
        if is_items and isinstance(node, ast.Dict) and None not in node.keys:
            return [ast.Tuple(list(pair), None) for pair in zip(node.keys, node.values)], is_of_test
        return ([] if is_items else getattr(node, "elts", [])), is_of_test

    def is_generator(self):
        """Whether the function is a generator, which runs only as far as its caller iterates."""
        return any(isinstance(part, (ast.Yield, ast.YieldFrom)) for part in self.below)

    def branches(self, body, branch, certain):
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
                    for found in self.branches(part, part[0].lineno, certain):
                        yield found

    def names_in(self, statement):
        """Returns the names that a statement involves, also through the test's own variables."""
        found, rest = set(), [statement]
        while rest:
            for part in ast.walk(rest.pop()):
                name = getattr(part, "id", getattr(part, "attr", None))
                if name in self.definitions and name not in found:
                    rest.append(self.definitions[name])
                found.add(name)
        return found

    @property
    def is_steady(self):
        """Whether the test depends on neither the clock nor chance. Otherwise a second run may give another result."""
        names = {getattr(part, "id", getattr(part, "attr", "")) for part in self.below} | self.arguments
        parts = {word.lower() for name in names for word in WORD.findall(str(name))}
        return not parts & words["unsteady"]

    def is_read_once(self, name):
        """Whether this is the only place where the test reads a name."""
        return name not in self.inner and self.loads.get(name) == 1

    def module_constant(self, name):
        for statement in self.source.tree.body:
            if isinstance(statement, ast.Assign) and self.source.stored.get(name) == 1:
                targets = [getattr(target, "id", None) for target in statement.targets]
                if targets == [name]:
                    return [statement.value]
        return []

    def fixture(self, name):
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
