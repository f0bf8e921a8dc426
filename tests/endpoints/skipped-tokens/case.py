"""chat/tools, vLLM's gpt-oss with speculative decoding: the stream contains only the last token of each decoding step, so arguments have gaps; without streaming they are complete. (vllm#26027, #30204)"""
from mock import *
import re
class C(Case):
    sticky = True
    def answer(self, conv, k, body):
        name, a = [('shell', sh('cd numerals && cat roman.py tally.py')), ('shell', sh(SOLVE)), ('submit', {})][min(k, 2)]
        usage = {'prompt_tokens': 100, 'completion_tokens': 30 + len(json.dumps(a)) // 4, 'total_tokens': 0}
        c = tcall(name, a)
        if body.get('stream'):
            tokens = re.findall(r'\w+|[^\w\s]|\s+', c['function']['arguments'])
            pieces = tokens[1::2] if len(tokens) > 2 else tokens
            first = {**c, 'function': {'name': name, 'arguments': ''}}
            return chat({'role': 'assistant', 'tool_calls': [first]}, *[{'tool_calls': [{'index': 0, 'function': {'arguments': p}}]} for p in pieces], usage=usage)
        c.pop('index')
        return js({'id': 'x', 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'tool_calls', 'message': {'role': 'assistant', 'content': None, 'tool_calls': [c]}}], 'usage': usage})
