"""chat/tools, DashScope (QwQ): the model rejects requests without `stream`, and the first stream of each call loses its last brace. (OpenManus#330, new-api#905, ragflow#5912)"""
from mock import *
class C(Case):
    sticky = True
    torn = -1
    def answer(self, conv, k, body):
        call = [tcall(args=sh('ls')), tcall(args=sh('pwd')), tcall(args=sh('ls numerals')), tcall(args=sh(SOLVE)), tcall('submit', {})][min(k, 4)]
        if self.torn < k < 4:
            self.torn = k; call['function']['arguments'] = call['function']['arguments'][:-1]
        return chat({'role': 'assistant', 'tool_calls': [call]})
    def check(self, conv, k, body, h):
        if not body.get('stream'): return js({'error': {'code': 'invalid_parameter_error', 'param': None, 'message': 'This model only support stream mode, please enable the stream parameter to access the model. ', 'type': 'invalid_request_error'}, 'request_id': '8eeb3d9a'}, 400)
