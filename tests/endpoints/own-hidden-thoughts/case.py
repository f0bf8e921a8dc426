"""gemini/tools, honest: like own-one-by-one, but candidatesTokenCount includes the thoughts, and thoughtsTokenCount is missing, as in proxies before other models: its own limit."""
from mock import *
LOOK = ['cat numerals/roman.py', 'cat numerals/__init__.py', 'cat numerals/tally.py', 'ls tests', 'cat tests/test_tally.py', 'git log --oneline', 'git status --short', 'ls -a']
class C(Case):
    api = 'gemini'
    budget = 'steps = 10\nwall_seconds = 120'
    def handle(self, raw, headers, path):
        self.streams = 'stream' in path
        return super().handle(raw, headers, path)
    def answer(self, conv, k, body):
        part = gcall(LOOK[turns(body) % 8], sig='GS')
        return g_out(self.streams, [part], n_of(body), n_of(part) + 180)
