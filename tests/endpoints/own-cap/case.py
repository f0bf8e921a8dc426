"""chat/tools: the arm requests 8,000 tokens, but the gateway has a limit of 1,000 and returns length inside the call every time. Not the model's limit: no verdict. (hermes-agent#108558)"""
from mock import *
class C(Case):
    budget = 'steps = 6\nwall_seconds = 120'
    model = 'max_output_tokens = 8000'
    def answer(self, conv, k, body):
        a = '{"command": "cat > numerals/x.py <<END\\n' + '# a long comment about numerals\\n' * 140
        u = {'prompt_tokens': 900, 'completion_tokens': 1000, 'total_tokens': 1900}
        if body.get('stream'): return chat({'role': 'assistant', 'tool_calls': [tcall('shell', a)]}, fin='length', usage=u)
        c = tcall('shell', a); c.pop('index')
        return js({'id': 'x', 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'length', 'message': {'role': 'assistant', 'content': None, 'tool_calls': [c]}}], 'usage': u})
