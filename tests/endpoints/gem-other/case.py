"""gemini/bash, Bifrost's Gemini address before other providers: if the request sets no maxOutputTokens, the gateway asks for 4,096 tokens, and a response that this limit cuts off is reported with finishReason OTHER instead of MAX_TOKENS, streamed or not, always inside the model's long command (5,400 tokens), from step 2 on. With a limit that fits, the response is complete. The gateway's limit, not the model's end: resolved with an explicit limit, or a fault; the partial command must not run, and the trial must not be scored. (bifrost#5978 "any truncated response reports finishReason: OTHER", #335 "DefaultMaxTokens = 4096", use-brian#258 "an unmapped Gemini finishReason is a halt, not a clean end_turn")"""
from mock import *
ASK = '```bash\n%s\n```'
def roman(n, out=''):
    for v, s in ((1000, 'M'), (900, 'CM'), (500, 'D'), (400, 'CD'), (100, 'C'), (90, 'XC'), (50, 'L'), (40, 'XL'), (10, 'X'), (9, 'IX'), (5, 'V'), (4, 'IV'), (1, 'I')):
        while n >= v: out, n = out + s, n - v
    return out
LONG = SOLVE + "\ncat > tests/test_from_roman.py <<'END'\nimport pytest\n\nfrom numerals import from_roman\n\nKNOWN = [\n" + ''.join(f'    ("{roman(n)}", {n}),\n' for n in range(1, 3999, 6)) + ']\n\n\n@pytest.mark.parametrize("text, value", KNOWN)\ndef test_known(text, value):\n    assert from_roman(text) == value\nEND'
class C(Case):
    api = 'gemini'
    scaffold = 'bash'
    def handle(self, raw, headers, path):
        self.stream = 'stream' in path
        return super().handle(raw, headers, path)
    def answer(self, conv, k, body):
        users = [''.join(p.get('text', '') for p in c['parts']) for c in body['contents'] if c['role'] == 'user']
        ran = sum(not u.startswith('Nothing was run') for u in users[1:])
        text = ['I look at the package.\n\n' + ASK % 'ls; cat numerals/roman.py', 'I write the function, export it, and add a table of tests.\n\n' + ASK % LONG, ASK % '/venv/bin/python -m pytest -q | tail -1', 'Done.\n\n' + ASK % 'proctor-submit'][min(ran, 3)]
        tokens, limit = lambda s: len(s) // 3, ((body.get('generationConfig') or {}).get('maxOutputTokens') or 4096)
        cut = tokens(text) > limit
        if cut: text = text[:limit * 3]
        n, t = len(json.dumps(body)) // 4, tokens(text)
        pieces = [text[i:i+900] for i in range(0, len(text), 900)]
        one = lambda s, fin=None: {'candidates': [{'content': {'role': 'model', 'parts': [{'text': s}]}, 'index': 0, **({'finishReason': fin} if fin else {})}], 'modelVersion': 'mock'}
        fin, usage = 'OTHER' if cut else 'STOP', {'promptTokenCount': n, 'candidatesTokenCount': t, 'totalTokenCount': n + t}
        if not self.stream: return js({**one(text, fin), 'usageMetadata': usage})
        return sse(*[one(p) for p in pieces[:-1]], {**one(pieces[-1], fin), 'usageMetadata': usage}, done=False)
