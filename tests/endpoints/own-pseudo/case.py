"""chat/tools, honest: after its first call, the model itself writes its arguments in a notation of its own (`command=ls, timeout=None`), streamed or not, and gives up with text: scored."""
from mock import *
class C(Case):
    def answer(self, conv, k, body):
        n = steps(body); u = use(n_of(body), 40)
        if n == 0: return call(body, 'shell', sh('ls'), u)
        if n >= 5: return say(body, 'The tool does not accept my calls, so I give up.', u)
        raw = 'command=cat numerals/roman.py, timeout=None'; c = tcall('shell', raw)
        return out(body, {'content': None, 'tool_calls': [{x: v for x, v in c.items() if x != 'index'}]}, [{'tool_calls': [c]}], 'tool_calls', u)
