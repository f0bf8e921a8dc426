"""Selects functions, and collects the canaries that can be made from them."""

import ast

from .edits import Edits
from .request import chance, request, words
from .source import FUNCTIONS, Source, name_of
from .test_function import TestFunction

# Assertions that do not compare values, so an object equal to everything cannot affect them.
UNTRIED = ("asserttrue", "assertfalse", "assertis", "assertisnot", "assertisnone", "assertisnotnone")
RANKS = ("value", "raises", "wrapped", "operator", "negated", "fail")


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
    test = TestFunction(source, node, bodies, conftests)
    edits_of_test = Edits(test)
    for edit, lines, about in edits_of_test.edits():
        if source.text.count(b"\n", edit.start, edit.end) == edit.new.count(b"\n"):
            kinds.setdefault(edit.kind, []).append((edit, lines, about))
    made = []
    for kind, edits in sorted(kinds.items()):
        chance.shuffle(edits)
        edits.sort(key=lambda found: not found[-1])
        made += [[one] for one in edits[: 3 if kind == "value" else 1]]
    if not any(edit.kind not in ("fail", "negated") for [(edit, _, _)] in made):
        made += [sorted(all_of) for all_of in edits_of_test.in_branches()]
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
            if good >= request["enough"]:
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
