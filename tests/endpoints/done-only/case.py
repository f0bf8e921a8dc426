"""chat/tools: a stream that ends with [DONE] but without a finish_reason, and one that breaks inside a call, which must be requested again."""
from mock import *
class C(Case):
    n = 0
    def answer(self, conv, k, body):
        if k == 1 and self.n < 2:
            self.n += 1
            broken = sse(chunk({'role': 'assistant', 'tool_calls': [tcall(args='{"command": "rm -r')]}))
            broken.counts = False
            return broken
        call = [tcall(args=sh('ls')), tcall(args=sh(SOLVE)), tcall('submit', {})][min(k, 2)]
        return sse(chunk({'role': 'assistant', 'tool_calls': [call]}), chunk(usage=USAGE))
