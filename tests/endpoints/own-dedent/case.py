"""chat/tools, honest: the model inserts an indented body, but omits the indentation of its first line, streamed or not, and gives up with text after five attempts: scored."""
from mock import *
BODY = 'total, rest = 0, text\n    for numeral, value in VALUES.items():\n        while rest.startswith(numeral):\n            total += value\n            rest = rest[len(numeral):]\n    if rest or not 1 <= total <= 3999 or to_roman(total) != text:\n        raise ValueError(f"not a Roman numeral: {text!r}")\n    return total\n'
HEAD = 'git checkout -q -- . 2>/dev/null; cp -n numerals/roman.py /tmp/r.py; cp /tmp/r.py numerals/roman.py; printf \'\\n\\ndef from_roman(text: str) -> int:\\n\' >> numerals/roman.py; grep -q "import from_roman" numerals/__init__.py || sed -i \'s/import to_roman/import from_roman, to_roman/; s/__all__ = \\[/__all__ = ["from_roman", /\' numerals/__init__.py; wc -l < numerals/roman.py'
class C(Case):
    budget = 'steps = 30\nwall_seconds = 120'
    def answer(self, conv, k, body):
        n, seen = steps(body), shown(body)
        u = use(n_of(body), 160)
        if any('1994 MARK-DONE' in t for t in seen): return call(body, 'submit', {}, u)
        if n >= 15: return say(body, 'Python reports an IndentationError in the body that I insert each time, although my lines are indented alike. I stop here.', u)
        if n % 3 == 0: return call(body, 'shell', sh(HEAD), u)
        if n % 3 == 1:
            spec = next(t['function']['parameters'] for t in body['tools'] if t['function']['name'] == 'edit')
            line = int([w for w in seen[-1].split() if w.isdigit()][-1])
            return call(body, 'edit', {**dict.fromkeys(spec['properties']), 'command': 'insert', 'path': 'numerals/roman.py', 'insert_line': line, 'insert_text': BODY}, u)
        return call(body, 'shell', sh('/venv/bin/python -c \'import numerals; print(numerals.from_roman("MCMXCIV"), "MARK-DONE")\''), u)
