"""messages/bash: three partial responses have stop_reason model_context_window_exceeded, although the window is far from full (the gateway has a small one)."""
from mock import *
class C(Case):
    api = 'messages'
    scaffold = 'bash'
    n = 0
    timeout = 60
    def answer(self, conv, k, body):
        x = lambda t: {'type': 'text', 'text': t}
        if k == 1 and self.n < 3:
            self.n += 1
            r = msg(x('I look and'), stop='model_context_window_exceeded'); r.counts = False; return r
        return [lambda: msg(x('```bash\nls\n```'), stop='end_turn'), lambda: msg(x('```bash\n' + SOLVE + '\n```'), stop='end_turn'), lambda: msg(x('```bash\nproctor-submit\n```'), stop='end_turn')][min(k, 2)]()
