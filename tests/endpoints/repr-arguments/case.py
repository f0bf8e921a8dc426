"""chat/tools, gateways in Python: from step 2 on, the arguments are the text of a Python dict: `{'command': 'ls', 'timeout': None}`, streamed or not. Proctor cannot decide this: the model may have written this itself, so the trial is scored. (hermes-agent#1393, debug-gym#123, atropos#479)"""
from mock import *
CMDS = ['ls; cat numerals/roman.py', SOLVE, TEST]
BAD = __import__('re').compile(r'(?i)json|argument|not run|invalid')
class C(Case):
    def answer(self, conv, k, body):
        got = [flat(m['content']) for m in body['messages'] if m['role'] == 'tool']
        bad = sum(bool(BAD.search(t)) for t in got); n = len(got) - bad
        u = lambda c: use(n_of(body), c)
        if bad >= 4: return say(body, 'The tool rejects each of my calls, although I wrote them correctly. I cannot go on like this.', u(24))
        name, args = ('submit', {}) if n >= 3 else ('shell', sh(CMDS[n]))
        if GOOD or not got: return call(body, name, args, u(n_of(args) + 10))
        raw = repr(args); c = tcall(name, raw)
        deltas = [{'tool_calls': [{**c, 'function': {'name': name, 'arguments': ''}}]}] + [{'tool_calls': [{'index': 0, 'function': {'arguments': p}}]} for p in pieces(raw, 40)]
        return out(body, {'content': None, 'tool_calls': [{x: v for x, v in c.items() if x != 'index'}]}, deltas, 'tool_calls', u(n_of(args) + 10))
