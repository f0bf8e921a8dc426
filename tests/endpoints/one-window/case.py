"""chat/tools, honest, one server with a window of 8,192 tokens: it answers a shorter prompt, then the model prints more than fits. The overflow is the model's: scored."""
from mock import *
class C(Case):
    sticky = True
    def size(self, body): return len(json.dumps(body['messages'])) // 3
    def answer(self, conv, k, body):
        n = self.size(body)
        u = {'prompt_tokens': n, 'completion_tokens': 41, 'total_tokens': n + 41}
        return chat_call('for i in $(seq 1 300); do echo "2026-11-26 line $i of the long log of the build"; done', usage=u)
    def check(self, conv, k, body, h):
        n = self.size(body)
        if n > 8192: return err(400, f"This model's maximum context length is 8192 tokens. However, your request has {n} input tokens. Please reduce the length of the input messages.")
