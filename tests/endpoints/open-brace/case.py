"""chat/tools, vLLM's xlam parser: streamed arguments have an extra `{` before the object (`{{"command"...`), or the whole object twice; without streaming they are correct. (vllm#51697)"""
from mock import *
class C(Case):
    sticky = True
    n = 0
    def answer(self, conv, k, body):
        name, a = [('shell', sh('ls')), ('shell', sh(SOLVE)), ('submit', {})][min(k, 2)]
        full = json.dumps(a)
        c = tcall(name, a)
        if body.get('stream'):
            self.n += 1
            pieces = ['{', full] if self.n % 2 else [full, full]
            first = {**c, 'function': {'name': name, 'arguments': ''}}
            return chat({'role': 'assistant', 'tool_calls': [first]}, *[{'tool_calls': [{'index': 0, 'function': {'arguments': p}}]} for p in pieces])
        c.pop('index')
        return js({'id': 'x', 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'tool_calls', 'message': {'role': 'assistant', 'content': None, 'tool_calls': [c]}}], 'usage': USAGE})
