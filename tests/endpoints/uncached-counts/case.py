"""chat/tools, honest, a proxy whose `prompt_tokens` exclude cached tokens and that reports no cache: the count falls while the conversation grows, and a repeated request counts almost nothing. The prompt is complete, and the model solves the task: resolved. (Portkey-AI/gateway#1210)"""
from mock import *
class C(Case):
    sticky = True
    seen = 0
    def answer(self, conv, k, body):
        size = len(json.dumps(body['messages'])) // 4
        n = max(size - self.seen, 4)
        self.seen = size
        u = {'prompt_tokens': n, 'completion_tokens': 30, 'total_tokens': n + 30}
        log = lambda lines: chat_call(f'for i in $(seq 1 {lines}); do echo "2026-11-26 line $i of the long log of the build"; done', usage=u)
        return [lambda: log(240), lambda: log(160), lambda: log(90), lambda: chat_call(SOLVE, usage=u), chat_submit][min(k, 4)]()
