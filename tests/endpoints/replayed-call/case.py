"""chat/tools, the proxies of replayed-stream: a partial call, then the complete call of the second attempt at the same index with a different id; without streaming it is correct. (shenyu#6647)"""
from mock import *
class C(Case):
    sticky = True
    def answer(self, conv, k, body):
        name, a = [('shell', sh('ls')), ('shell', sh(SOLVE)), ('submit', {})][min(k, 2)]
        c, again = tcall(name, a), tcall(name, a)
        if not body.get('stream'):
            c.pop('index')
            return js({'id': 'x', 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'tool_calls', 'message': {'role': 'assistant', 'content': None, 'tool_calls': [c]}}], 'usage': USAGE})
        full = c['function']['arguments']
        half = {**c, 'function': {'name': name, 'arguments': full[:len(full) // 2]}}
        return sse(chunk({'role': 'assistant', 'tool_calls': [half]}, id='chatcmpl-1'), chunk({'role': 'assistant', 'tool_calls': [again]}, id='chatcmpl-2'), chunk({}, 'tool_calls', id='chatcmpl-2'), chunk(usage=USAGE, id='chatcmpl-2'))
