"""chat endpoint (Cerebras), Messages client: reasoning arrives as `reasoning`; `reasoning_content` in a request gets status 400 without a body, from the second turn on. (qwen-code#11045, chatwise#1442)"""
from mock import *
class C(Case):
    scaffold = '../cli/messages.toml'
    def answer(self, conv, k, body):
        name, a = [('shell', sh('ls')), ('shell', sh(SOLVE)), ('submit', {})][min(k, 2)]
        c = tcall(name, a)
        if body.get('stream'): return chat({'role': 'assistant', 'reasoning': f'think{k}'}, {'tool_calls': [c]})
        c.pop('index')
        return js({'id': 'x', 'model': 'mock', 'choices': [{'index': 0, 'finish_reason': 'tool_calls', 'message': {'role': 'assistant', 'reasoning': f'think{k}', 'content': None, 'tool_calls': [c]}}], 'usage': USAGE})
    def check(self, conv, k, body, h):
        if any('reasoning_content' in m for m in body['messages']): return R([], 400, None)
