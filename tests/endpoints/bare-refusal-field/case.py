"""chat/tools: the endpoint sends `reasoning_content` but rejects it in requests with status 400 and no body, from the second turn on. (qwen-code#11045)"""
from mock import *
class C(Case):
    def answer(self, conv, k, body):
        call = [tcall(args=sh('ls')), tcall(args=sh(SOLVE)), tcall('submit', {})][min(k, 2)]
        return chat({'role': 'assistant', 'reasoning_content': f'think{k}'}, {'tool_calls': [call]})
    def check(self, conv, k, body, h):
        if any('reasoning_content' in m for m in body['messages']): return R([], 400, None)
