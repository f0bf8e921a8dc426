"""messages/tools: the server lost a call and ends a text-only turn with `tool_use`. Twice, then a valid response."""
from mock import *
class C(Case):
    api = 'messages'
    n = 0
    def script(self, conv): return []
    def answer(self, conv, k, body):
        if k == 1 and self.n < 2:
            self.n += 1
            broken = msg({'type': 'text', 'text': 'I run the tests.'})
            broken.counts = False
            return broken
        return [lambda: msg(tuse('ls')), lambda: solve('messages'), lambda: submit('messages')][min(k, 2)]()
