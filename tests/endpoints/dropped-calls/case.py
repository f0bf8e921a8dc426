"""gemini/tools, proxies over OpenCode, Cursor or AI Studio: they pass on only the first of a turn's two calls, streamed or not. candidatesTokenCount counts both. The second call writes the function and is lost each time, so the model works until its steps are used up. Expected: a fault; never the model's limit. (opencode-llm-proxy#62, opencode-cursor#123, CLIProxyAPI#3134)"""
from mock import *
LOOK = ['cat numerals/roman.py', 'cat numerals/__init__.py', 'cat numerals/tally.py', 'ls tests', 'cat tests/test_tally.py', 'git log --oneline', 'git status --short', 'ls -a']
class C(Case):
    api = 'gemini'
    budget = 'steps = 10\nwall_seconds = 120'
    def handle(self, raw, headers, path):
        self.streams = 'stream' in path
        return super().handle(raw, headers, path)
    def answer(self, conv, k, body):
        calls = [p['functionCall'] for m in body['contents'] for p in m.get('parts', []) if 'functionCall' in p]
        n = turns(body); p = n_of(body)
        if any('from_roman' in json.dumps(c['args']) for c in calls): parts = [gcall(name='submit', args={}, sig='GS')]
        elif n == 0: parts = [gcall('ls', sig='GS')]
        else: parts = [gcall(LOOK[n % 8], sig='GS'), gcall(SOLVE)]
        c = sum(n_of(x) for x in parts)
        return g_out(self.streams, parts if GOOD else parts[:1], p, c, **({'thoughtsTokenCount': 30, 'totalTokenCount': p + c + 30} if os.environ.get('THOUGHTS') else {}))
