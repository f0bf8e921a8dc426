"""messages/tools: stop_reason tool_use without any block but with counted tokens, three times (directly from the service); then a valid response. (pi#9681)"""
from mock import *
class C(Case):
    api = 'messages'
    n = 0
    def answer(self, conv, k, body):
        if k == 1 and self.n < 3:
            self.n += 1
            r = msg(usage1={'output_tokens': 127}); r.counts = False; return r
        return [lambda: msg(tuse('ls')), lambda: solve('messages'), lambda: submit('messages')][min(k, 2)]()
