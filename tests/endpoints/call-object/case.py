"""chat/tools, TGI: delta.tool_calls is an object, every piece has the name, id '', finish_reason stop or eos_token. (text-generation-inference#2794, PR 2949)"""
from mock import *
class C(Case):
    def answer(self, conv, k, body):
        name, a = [('shell', sh('ls')), ('shell', sh(SOLVE)), ('submit', {})][min(k, 2)]
        f = json.dumps(a)
        return sse(*[chunk({'role': 'assistant', 'tool_calls': {'index': 0, 'id': '', 'type': 'function', 'function': {'name': name, 'arguments': f[i:i+7]}}}) for i in range(0, len(f), 7)], chunk({'role': 'assistant', 'content': ''}, ['eos_token', 'stop'][k % 2]), chunk(usage=USAGE))
