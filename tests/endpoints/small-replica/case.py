"""chat/tools, one-api and OpenRouter over two servers of one model, one with a window of 131,072 tokens, the other with 8,192: step 2 (over 9,000 tokens) is answered, then the small server rejects step 3 twice and step 4 once. The endpoint has answered a longer prompt, so the gateway retries: resolved. (one-api#105, 9router#1089, models.dev#2796, OpenHands#9937)"""
from mock import *
class C(Case):
    sticky = True
    def __init__(self):
        super().__init__(); self.small = {2: 2, 3: 1}
    def answer(self, conv, k, body):
        n = len(json.dumps(body)) // 3
        u = {'prompt_tokens': n, 'completion_tokens': 41, 'total_tokens': n + 41}
        if k >= 3: return chat({'role': 'assistant', 'tool_calls': [tcall('submit', {})]}, usage=u)
        return chat_call(['for i in $(seq 1 900); do echo "2026-11-26 line $i of the long log of the build"; done', 'ls', SOLVE][k], usage=u)
    def check(self, conv, k, body, h):
        if not self.small.get(k): return None
        self.small[k] -= 1
        n = len(json.dumps(body["messages"])) // 3
        assert n > 8192, n
        return js({'object': 'error', 'message': f"This model's maximum context length is 8192 tokens. However, your request has {n} input tokens. Please reduce the length of the input messages.", 'type': 'BadRequestError', 'param': None, 'code': 400}, 400)
