"""chat/tools, honest: the model itself ends its calls in the middle of the arguments, after the same number of tokens, streamed or not, then gives up: scored."""
from mock import *
class C(Case):
    def answer(self, conv, k, body):
        s = steps(body)
        if s >= 4: return say(body, 'The tool does not accept my calls, so I give up.', use(n_of(body), 14))
        c = tcall('shell', '{"command": "sed -n 1,%dp numerals/roman.py' % (s + 5))
        return out(body, {'content': None, 'tool_calls': [{a: b for a, b in c.items() if a != 'index'}]}, [{'tool_calls': [c]}], 'tool_calls', use(n_of(body), 126))
