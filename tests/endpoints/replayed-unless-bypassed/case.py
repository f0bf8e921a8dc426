"""chat/tools behind a semantic cache that `Cache-Control: no-cache` bypasses."""
from mock import *
class C(Case):
    def check(self, conv, k, body, headers):
        turns = [m for m in body['messages'] if m['role'] == 'assistant']
        if turns and 'no-cache' not in (headers.get('cache-control') or ''):
            i = 'chatcmpl-8c41f0d2a97b'
            return sse(chunk({'role': 'assistant', 'tool_calls': [tcall(args=sh('ls'), id='call_77ab19cd')]}, id=i), chunk({}, 'tool_calls', id=i), chunk(usage=USAGE, id=i))
    def answer(self, conv, k, body):
        i, (n, a) = f'chatcmpl-8c41f0d2a97{"bcdef"[min(k, 4)]}', [('shell', sh('ls')), ('shell', sh(SOLVE)), ('submit', {})][min(k, 2)]
        c = tcall(n, a, id=f'call_77ab19c{"def"[min(k, 2)]}')
        if not body.get('stream'): c.pop('index'); return js({'id': i, 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'tool_calls', 'message': {'role': 'assistant', 'content': None, 'tool_calls': [c]}}], 'usage': USAGE})
        return sse(chunk({'role': 'assistant', 'tool_calls': [c]}, id=i), chunk({}, 'tool_calls', id=i), chunk(usage=USAGE, id=i))
