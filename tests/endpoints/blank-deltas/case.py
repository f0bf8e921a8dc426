"""chat/bash, vLLM-MLX with a tool parser, and bridges that test each chunk with `trim()`: in streams, a chunk that contains only blanks is dropped; without streaming, the text is complete. The server sends tokens one by one, so each indentation shrinks to one blank, and nested blocks get the same depth. The model's Python fails each time, and after six attempts the model gives up: resolved, never scored. (vllm-mlx#464, Agents-for-js#997, spacebot#413, ruby_llm#636)"""
from mock import *
import re
# The pieces of a byte-pair tokenizer of the GPT kind.
def tokens(t): return re.findall(r"[^\r\n\w]?[^\W\d_]+|\d{1,3}| ?[^\s\w]+[\r\n]*|_+|\s*[\r\n]+|\s+(?!\S)|\s+", t)
PY = """cat > /tmp/write.py <<'END'
path = "numerals/roman.py"
code = open(path).read() + '''

def from_roman(text: str) -> int:
    total, rest = 0, text
    for numeral, value in VALUES.items():
        while rest.startswith(numeral):
            total += value
            rest = rest[len(numeral):]
    if rest or not 1 <= total <= 3999 or to_roman(total) != text:
        raise ValueError("not a Roman numeral: " + repr(text))
    return total
'''
open(path, "w").write(code)
path = "numerals/__init__.py"
code = open(path).read()
for old, new in [("import to_roman", "import from_roman, to_roman"), ('__all__ = [', '__all__ = ["from_roman", ')]:
    if new not in code:
        code = code.replace(old, new)
open(path, "w").write(code)
END
python3 /tmp/write.py && /venv/bin/python -c 'import numerals; print(numerals.from_roman("MCMXCIV"), "MARK-DONE")'"""
class C(Case):
    scaffold = 'bash'
    def answer(self, conv, k, body):
        said = [m.get('content') or '' for m in body['messages'] if m['role'] == 'user']
        n = steps(body)
        if n == 0: text = 'I look at the package.\n\n' + ASK % 'cat numerals/roman.py numerals/__init__.py;'
        elif any('1994 MARK-DONE' in t for t in said): text = 'It works.\n\n' + ASK % 'proctor-submit'
        elif n < 7: text = 'I write the function and try it.\n\n' + ASK % PY
        else: text = 'Python refuses my code each time with an IndentationError that I cannot explain. I stop here.'
        u = use(n_of(body), n_of(text))
        # A newline arrives with the token before it.
        chunks = []
        for t in tokens(text):
            if t.strip('\r\n') == '' and chunks: chunks[-1] += t
            else: chunks.append(t)
        assert ''.join(chunks) == text, (''.join(chunks), text)
        return out(body, {'content': text}, [{'content': c} for c in chunks if c.strip()], 'stop', u)
