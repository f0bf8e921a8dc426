"""chat/tools, small-replica, but the server with the window of 8,192 tokens answers alone from step 3 on. The endpoint has answered a longer prompt, so the overflow is a fault, not the model's failure. (one-api#105)"""
from mock import *
class C(Case):
    sticky = True
    def usage(self, body):
        n = len(json.dumps(body)) // 3
        return {'prompt_tokens': n, 'completion_tokens': 41, 'total_tokens': n + 41}
    def answer(self, conv, k, body):
        return chat_call(['for i in $(seq 1 900); do echo "2026-11-26 line $i of the long log of the build"; done', 'ls'][min(k, 1)], usage=self.usage(body))
    def check(self, conv, k, body, h):
        if k < 2: return None
        n = self.usage(body)['prompt_tokens']
        return err(400, f"This model's maximum context length is 8192 tokens. However, your request has {n} input tokens. Please reduce the length of the input messages.")
