"""chat/tools, a router before Gemini and GLM: from step 2 on, the calls of a turn are merged into one with the first id and name, and their arguments are joined: `{"command":...}{"command":...}`, streamed or not. Expected: resolved if the client splits them; never the model's malformed calls. (hermes-agent#57939, braintrust-proxy#245)"""
from mock import *
STEPS = [['ls', 'cat numerals/__init__.py'], ['cat numerals/roman.py', 'cat tests/test_tally.py'], [SOLVE, TEST]]
BAD = __import__('re').compile(r'(?i)json|argument|not run|invalid|trailing')
class C(Case):
    def answer(self, conv, k, body):
        ms = body['messages']; turns, bad = 0, 0
        for i, m in enumerate(ms):
            if m['role'] != 'assistant': continue
            res = []
            for r in ms[i + 1:]:
                if r['role'] == 'assistant': break
                if r['role'] == 'tool': res.append(flat(r['content']))
            if any(BAD.search(t) for t in res): bad += 1
            else: turns += 1
        u = lambda c: use(n_of(body), c)
        if bad >= 4: return say(body, 'The tool rejects each of my calls, although I wrote them correctly. I cannot go on like this.', u(24))
        calls = [('shell', sh(c)) for c in STEPS[turns]] if turns < 3 else [('submit', {})]
        cs = [tcall(n, a, i) for i, (n, a) in enumerate(calls)]
        if not GOOD and turns and len(cs) > 1: cs = [{**cs[0], 'function': {'name': cs[0]['function']['name'], 'arguments': ''.join(c['function']['arguments'] for c in cs)}}]
        deltas = []
        for c in cs:
            deltas.append({'tool_calls': [{**c, 'function': {'name': c['function']['name'], 'arguments': ''}}]})
            deltas += [{'tool_calls': [{'index': c['index'], 'function': {'arguments': p}}]} for p in pieces(c['function']['arguments'], 40)]
        return out(body, {'content': None, 'tool_calls': [{x: v for x, v in c.items() if x != 'index'} for c in cs]}, deltas, 'tool_calls', u(sum(n_of(a) + 10 for _, a in calls)))
