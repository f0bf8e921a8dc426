"""chat/tools: complete responses with text and call in two separate choices; the calls must be sent back in one turn."""
from mock import *
class C(Case):
    def answer(self, conv, k, body):
        call = [tcall(args=sh('ls'), id='c1'), tcall(args=sh(SOLVE), id='c2'), tcall('submit', {}, id='c3')][min(k, 2)]
        call.pop('index')
        return js({'id': 'x', 'model': 'mock', 'usage': USAGE, 'choices': [
            {'index': 0, 'finish_reason': 'stop', 'message': {'role': 'assistant', 'content': 'I look.'}},
            {'index': 1, 'finish_reason': 'tool_calls', 'message': {'role': 'assistant', 'content': None, 'tool_calls': [call]}}]})
    def check(self, conv, k, body, h):
        turns = [m for m in body['messages'] if m['role'] == 'assistant']
        if len(turns) != k: return err(400, f'{len(turns)} assistant turns after {k} responses')
        for turn in turns:
            if turn.get('content') != 'I look.' or len(turn.get('tool_calls') or []) != 1: return err(400, f'a turn was changed: {turn}')
