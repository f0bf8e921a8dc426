"""Makes canaries: copies of real test files in which one test must fail.

Reads `{"token": ..., "files": [{"name", "text", "functions"}]}` and writes a list of
`{"origin", "function", "kind", "text"}`, for each file at most one of each kind:

`raise`    the test's first statement is a failing one;
`literal`  an assertion that compares with a literal compares with something else instead, so that
           an object that is equal to everything is seen.

Run isolated, before any patch is laid, on Python 3.6 and later.
"""

import ast
import json
import sys


def functions(tree, wanted):
    """The wanted test functions that nothing but a parametrization decorates, and that nothing in
    the file names: what calls a test while the file is imported would stop the whole copy."""
    named = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    named.update(n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute))
    for name in wanted:
        if name.split("::")[-1] in named:
            continue
        node = tree
        for part in name.split("::"):
            found = [n for n in node.body if getattr(n, "name", None) == part]
            node = found[-1] if found else None
            if node is None:
                break
        if isinstance(node, ast.FunctionDef) and all(map(is_parametrize, node.decorator_list)):
            yield name, node


def is_parametrize(decorator):
    target = decorator.func if isinstance(decorator, ast.Call) else None
    return isinstance(target, ast.Attribute) and target.attr == "parametrize"


def is_text(node):
    value = getattr(node, "value", None)  # `Constant` from 3.8 on, `Str` before.
    return isinstance(node, ast.Expr) and isinstance(getattr(value, "value", getattr(value, "s", None)), str)


def raising(lines, node, token):
    body = node.body[1:] if is_text(node.body[0]) else node.body
    if not body or getattr(body[0], "decorator_list", None):
        return None
    line, column = body[0].lineno - 1, body[0].col_offset
    indent = lines[line][:column]
    if indent.strip():
        return None  # On the line of the `def`.
    return lines[:line] + [indent + b"raise AssertionError('%s')\n" % token] + lines[line:]


def is_literal(node):
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


def compared(statement):
    """The literal that a statement compares something else with, for equality."""
    if isinstance(statement, ast.Assert) and isinstance(statement.test, ast.Compare):
        test = statement.test
        if len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq):
            return None
        pair = [test.left, test.comparators[0]]
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        if getattr(call.func, "attr", "") != "assertEqual" or len(call.args) != 2:
            return None
        pair = call.args
    else:
        return None
    literals = [is_literal(side) for side in pair]
    return pair[literals.index(True)] if literals.count(True) == 1 else None


def mistaken(lines, node, token):
    for statement in node.body:
        if isinstance(statement, ast.Return):
            return None
        literal = compared(statement)
        if literal is None or getattr(literal, "end_lineno", None) is None:
            continue
        first, last = literal.lineno - 1, literal.end_lineno - 1
        head = lines[first][: literal.col_offset]
        tail = lines[last][literal.end_col_offset :]
        return lines[:first] + [head + b"('%s',)" % token + tail] + lines[last + 1 :]
    return None


def canaries(file, token):
    try:
        tree = ast.parse(file["text"])
    except (SyntaxError, ValueError):
        return
    lines = file["text"].encode("utf-8").splitlines(True)
    made = set()
    for name, node in functions(tree, file["functions"]):
        for kind, change in (("literal", mistaken), ("raise", raising)):
            changed = None if kind in made else change(lines, node, token)
            if changed is None:
                continue
            text = b"".join(changed).decode("utf-8")
            try:
                compile(text, file["name"], "exec", dont_inherit=True)
            except (SyntaxError, ValueError):
                continue
            made.add(kind)
            yield {"origin": file["name"], "function": name, "kind": kind, "text": text}
            break  # Two canaries of one file are of two tests, where it has two.


order = json.loads(sys.stdin.buffer.read().decode("ascii"))
token = order["token"].encode("ascii")
json.dump([made for file in order["files"] for made in canaries(file, token)], sys.stdout)
