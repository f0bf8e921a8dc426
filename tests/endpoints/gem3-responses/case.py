"""Gemini's chat address, Responses client: extra_content, which only the first of two parallel calls has, must be sent back on that call. (aiproxy#450, OpenChatCut#6)"""
from mock import *
class C(Case):
    scaffold = '../cli/responses.toml'
    def answer(self, conv, k, body):
        c = lambda i, cmd, n='shell', x=None: {'id': i, 'type': 'function', 'function': {'name': n, 'arguments': json.dumps({'command': cmd} if cmd else {})}, **({'extra_content': {'google': {'thought_signature': x}}} if x else {})}
        t = {'role': 'assistant', 'content': None, 'tool_calls': [[c('c0', 'ls', x='T0'), c('c1', 'pwd')], [c('c2', SOLVE, x='T2')], [c('c3', '', 'submit', 'T3')]][min(k, 2)]}
        if body.get('stream'): return chat({**t, 'tool_calls': [{**x, 'index': n} for n, x in enumerate(t['tool_calls'])]})
        return js({'id': 'x', 'model': 'mock', 'choices': [{'index': 0, 'finish_reason': 'tool_calls', 'message': t}], 'usage': USAGE})
    def check(self, conv, k, body, h):
        for i, m in enumerate(body['messages']):
            tc = m.get('tool_calls') or []
            if tc and (tc[0].get('extra_content') or {}).get('google', {}).get('thought_signature') != {'c0': 'T0', 'c2': 'T2', 'c1': None}.get(tc[0]['id']) or (len(tc) == 1 and tc[0]['id'] == 'c1'):
                return js([{'error': {'code': 400, 'message': 'Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:shell` , position %d.' % i, 'status': 'INVALID_ARGUMENT'}}], 400)
