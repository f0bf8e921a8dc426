"""chat/tools, functionary before v2: if the request has `tools`, the server answers in the older form: `function_call` and finish_reason function_call, no tool_calls; it accepts both forms in requests. Expected: resolved; never scored. (functionary#92, #190, #243)"""
from mock import *
class C(Case):
    def answer(self, conv, k, body):
        k = sum(m['role'] in ('tool', 'function') for m in body['messages'])
        name, args = [('shell', sh('ls')), ('shell', sh(SOLVE)), ('submit', {})][min(k, 2)]
        n = len(json.dumps(body)) // 4
        u = {'prompt_tokens': n, 'completion_tokens': 40, 'total_tokens': n + 40}
        m = {'role': 'assistant', 'content': None, 'function_call': {'name': name, 'arguments': json.dumps(args)}}
        if body.get('stream'): return chat(m, fin='function_call', usage=u)
        return js({'id': 'x', 'object': 'chat.completion', 'model': 'mock', 'choices': [{'index': 0, 'finish_reason': 'function_call', 'message': m}], 'usage': u})
    def check(self, conv, k, body, h):
        calls = sum((len(m.get('tool_calls') or []) or ('function_call' in m and m['function_call'] is not None)) for m in body['messages'] if m['role'] == 'assistant')
        if sum(m['role'] in ('tool', 'function') for m in body['messages']) != calls: return err(400, 'each tool call needs one result')
