"""chat/tools, honest: the model itself writes a broken dash (`â€“` and `Ã©`, as in old files) into a comment, streamed or not, submits a wrong from_roman that accepts `IIII`: scored."""
from mock import *
BAD = """cat >> numerals/roman.py <<'END'


# The cafÃ© problem \u00e2\u0080\u0093 read greedily.
def from_roman(text):
    total = 0
    for numeral, value in VALUES.items():
        while text.startswith(numeral):
            total, text = total + value, text[len(numeral):]
    return total
END
sed -i 's/import to_roman/import from_roman, to_roman/; s/__all__ = \\[/__all__ = ["from_roman", /' numerals/__init__.py"""
class C(Case):
    def answer(self, conv, k, body):
        n = steps(body); u = use(n_of(body), 90)
        return call(body, *[('shell', sh('cat numerals/roman.py')), ('shell', sh(BAD)), ('submit', {})][min(n, 2)], u)
