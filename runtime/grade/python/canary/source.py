"""A test file: its text, its syntax tree and the names in it."""

import ast

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Source:
    """A file, and where each node starts and ends in its text (in bytes)."""

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
