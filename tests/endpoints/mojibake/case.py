"""chat/tools, proxies in Python that read streams with requests' `iter_lines(decode_unicode=True)`, and some Ollama clouds: `text/event-stream` without a charset is read as Latin-1 and encoded again, so each non-ASCII character of a stream arrives as two or three (`Ⅰ` as `â\x85\xa0`); without streaming it is correct. The model's check for Unicode numerals (str.maketrans of seven characters) then has 21 and fails each time (ValueError). After five attempts it gives up. Expected: resolved; never scored. (Maestro#110 "a valid but corrupted Python string", OSA#137 "The bytes are valid UTF-8, so nothing flags them", llmproxy-vercel#1, langchain4j#3108)"""
from mock import *
CMD = r"""git checkout -q -- . 2>/dev/null; cat >> numerals/roman.py <<'END'


LETTERS = str.maketrans("ⅠⅤⅩⅬⅭⅮⅯ", "IVXLCDM")


def from_roman(text: str) -> int:
    if text.translate(LETTERS) != text:
        raise ValueError(f"write {text!r} with letters")
    total, rest = 0, text
    for numeral, value in VALUES.items():
        while rest.startswith(numeral):
            total += value
            rest = rest[len(numeral):]
    if rest or not 1 <= total <= 3999 or to_roman(total) != text:
        raise ValueError(f"not a Roman numeral: {text!r}")
    return total
END
grep -q 'import from_roman' numerals/__init__.py || sed -i 's/import to_roman/import from_roman, to_roman/; s/__all__ = \[/__all__ = ["from_roman", /' numerals/__init__.py
/venv/bin/python -c 'import numerals; print(numerals.from_roman("MCMXCIV"), "MARK-DONE")'"""
def latin(x):
    if isinstance(x, str): return x.encode().decode('latin-1')
    if isinstance(x, list): return [latin(y) for y in x]
    if isinstance(x, dict): return {a: latin(b) for a, b in x.items()}
    return x
class C(Case):
    def answer(self, conv, k, body):
        n, seen = steps(body), shown(body)
        args = lambda a: latin(a) if body.get('stream') and not GOOD else a
        u = use(n_of(body), 60 if n != 1 else 330)
        if n == 0: return call(body, 'shell', args(sh('cat numerals/roman.py numerals/__init__.py')), u)
        if any('1994 MARK-DONE' in t for t in seen): return call(body, 'submit', {}, u)
        if n < 6: return call(body, 'shell', args(sh('# attempt %d\n' % n + CMD)), u)
        return say(body, 'Python says that the two arguments of maketrans have different lengths, although both have seven characters. I cannot explain it, so I stop here.', u)
