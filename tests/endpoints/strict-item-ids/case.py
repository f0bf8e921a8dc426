"""responses/tools, a strict gateway: each reasoning, message and call item in the input must have its original id. (opencode#48441)"""
from mock import *
class C(Case):
    api = 'responses'
    def answer(self, conv, k, body):
        call = [fcall('ls'), fcall(SOLVE), fcall(name='submit', args={})][min(k, 2)]
        text = {'type': 'message', 'id': f'msg_{k}', 'role': 'assistant', 'status': 'completed', 'content': [{'type': 'output_text', 'text': 'I go on.', 'annotations': []}]}
        return resp(rs(str(k)), text, call)
    def check(self, conv, k, body, h):
        for i, item in enumerate(body['input']):
            if (item.get('type') in ('reasoning', 'function_call') or item.get('role') == 'assistant') and not item.get('id'):
                return err(400, f"Invalid value for 'input.{i}.id': expected a value.", param=f'input.{i}.id')
