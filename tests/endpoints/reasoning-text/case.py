"""responses endpoint (DeepSeek V4 over a gateway), Messages client: reasoning with reasoning_text and without encrypted content must be sent back before its call. (rikkahub#1690, Agora#141)"""
from mock import *
class C(Case):
    api = 'responses'
    scaffold = '../cli/messages.toml'
    def answer(self, conv, k, body):
        r = {'type': 'reasoning', 'id': f'rs_{k}', 'summary': [], 'content': [{'type': 'reasoning_text', 'text': f'THINK{k}'}], 'status': 'completed'}
        f = lambda c, i, n='shell': {'type': 'function_call', 'id': 'fc_' + i, 'call_id': i, 'name': n, 'arguments': json.dumps({'command': c} if c else {}), 'status': 'completed'}
        it = [[r, f('ls', 'q0')], [r, f(SOLVE, 'q1')], [r, f('', 'q2', 'submit')]][min(k, 2)]
        if body.get('stream'): return resp(*it)
        return js({'id': f'resp_{k}', 'object': 'response', 'model': 'mock', 'status': 'completed', 'output': it, 'usage': {'input_tokens': 100, 'output_tokens': 20, 'total_tokens': 120}})
    def check(self, conv, k, body, h):
        inp = body['input']
        for n, i in enumerate(inp):
            if i.get('type') == 'reasoning' and 'summary' not in i: return err(400, f'Input[{n}] missing required field `summary`')
            if i.get('type') == 'function_call':
                p = inp[n-1]
                if p.get('type') != 'reasoning' or 'THINK' not in json.dumps(p.get('content') or ''): return err(400, 'The `reasoning_text` in the thinking mode must be passed back to the API.')
