"""Replaces literals with other values of the same kind."""

import ast
import re

from .request import chance, words
from .source import Source, constant, literal, name_of

STRING = re.compile(rb"([rRuUbB]{0,2})('''|\"\"\"|'|\")")
ESCAPE = re.compile(r"\\(?:x..|u....|U........|N\{[^}]*\}|[0-7]{1,3}|.)|.", re.S)
NUMBER = re.compile(rb"(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?![0-9A-Za-z_.])")


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
    # A string with more or fewer of the same characters may also be contained in another one, or make the same set.
    if plain and is_whole and not (is_raw and "\\" in inner):
        at = chance.choice(plain)
        shorter = len(inner) > 1 and chance.random() < 0.5
        return head + inner[:at] + ("" if shorter else inner[at] * 2) + inner[at + 1 :] + tail
    return head + inner + chance.choice("abcdefghiklmnoprstuvw") + tail


class Literals:
    """Finds literals in the text of a file."""

    def __init__(self, source):
        self._source = source

    def leaves(self, node, near, is_whole=True):
        """Returns edits of the literals that a value consists of. `is_whole` says whether the value is compared with
        another value as a whole, rather than searched for in it."""
        pairs = []
        is_whole = is_whole and not any(isinstance(part, ast.Call) for part in ast.walk(node))
        for leaf, is_near in self._atoms(node, near):
            start, value = self._source.start(leaf), constant(leaf)[1]
            if start is None:
                continue
            token, new = self.token(start, value), None
            if token is None:
                continue
            if isinstance(value, (str, bytes)):
                new = other_text(token, is_whole)
            elif isinstance(value, (bool, int, float)):
                new = other_number(token, value, is_near)
            if new is not None and self._differs(node, start, token, new):
                pairs.append((start, start + len(token), new.encode("utf-8")))
        return pairs

    def other_literal(self, node, near):
        """Returns source text, on one line, for a value that differs from the literal's."""
        known, was = literal(node)
        written = repr(was)
        if not known or len(written) > 400 or "\n" in written or isinstance(was, type(None)):
            return None
        try:
            copy = Source(written)
        except (SyntaxError, ValueError):
            return None
        edits = Literals(copy).leaves(copy.tree.body[0].value, near)
        if not edits:
            return None
        start, end, new = chance.choice(edits)
        return copy.text[:start] + new + copy.text[end:]

    def token(self, start, value):
        text = self._source.text
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
        begin, end = self._source.start(node), self._source.end(node)
        known, was = literal(node)
        if not known:
            return True
        if begin is None or end is None:
            known, now = literal(new)
            was = literal(token.decode("utf-8"))[1]
            return known and now != was
        text = self._source.text[begin : start] + new.encode("utf-8") + self._source.text[start + len(token) : end]
        known, now = literal(text.decode("utf-8").strip())
        if not known:  # The value spans several lines without brackets.
            known, now = literal("(" + text.decode("utf-8") + ")")
        return known and now != was and type(now) is type(was)
