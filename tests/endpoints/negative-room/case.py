"""chat/tools, honest, vLLM with a window of 8,192: the model prints more than fits, and the server reports `max_tokens must be at least 1, got -N`: an overflow that Proctor's count confirms, scored. (vllm#5700, #36789)"""
from mock import *
class C(Case):
    def script(self, conv): return [lambda: chat_call('for i in $(seq 1 900); do echo "2026-11-26 line $i of the long log of the build"; done')] * 8
    def check(self, conv, k, body, h):
        left = 8192 - len(json.dumps(body['messages'])) // 3
        if left < 1: return js({'error': {'message': f'max_tokens must be at least 1, got {left}. (parameter=max_tokens, value={left})', 'type': 'BadRequestError', 'param': 'max_tokens', 'code': 400}}, 400)
