"""Like stop-string, chat/tools, vLLM: the stop string is inside the arguments (`### ` in a comment), so the call is cut there, streamed or not, with finish_reason `stop` and stop_reason `###`. Expected: a fault with a hint (or resolved); never the model's malformed calls."""
from mock import *
class C(Case):
    def answer(self, conv, k, body):
        n = steps(body); u = use(n_of(body), 60)
        if n == 0: return call(body, 'shell', sh('cat numerals/roman.py'), u)
        if GOOD and n > 1: return call(body, 'submit', {}, u)
        raw = json.dumps(sh(SOLVE.replace('    total, rest', '    ### Read greedily, then compare.\n    total, rest', 1)))
        if not GOOD: raw = raw.split('###')[0]
        if n >= 6: return say(body, 'The tool rejects my calls as malformed each time. I stop here.', u)
        c = tcall('shell', raw); whole = {k: v for k, v in c.items() if k != 'index'}
        return out(body, {'content': None, 'tool_calls': [whole]}, [{'tool_calls': [{**c, 'function': {'name': 'shell', 'arguments': ''}}]}] + [{'tool_calls': [{'index': 0, 'function': {'arguments': p}}]} for p in pieces(raw, 40)], 'tool_calls' if GOOD else 'stop', u, **({} if GOOD else {'stop_reason': '###'}))
