"""chat/tools, LiteLLM before Mistral: 422 for `reasoning_content`, which the server sent itself. Only `loc`, below `message.detail`, names the field. (crush#1590, litellm#30835, mistral-go#2)"""
from mock import *
class C(Case):
    def answer(self, conv, k, body):
        call = [tcall(args=sh('ls')), tcall(args=sh(SOLVE)), tcall('submit', {})][min(k, 2)]
        return chat({'role': 'assistant', 'reasoning_content': f'think{k}'}, {'tool_calls': [call]})
    def check(self, conv, k, body, h):
        wrong = [{'type': 'extra_forbidden', 'loc': ['body', 'messages', i, 'assistant', 'reasoning_content'], 'msg': 'Extra inputs are not permitted', 'input': m['reasoning_content']} for i, m in enumerate(body['messages']) if 'reasoning_content' in m]
        if wrong: return js({'object': 'error', 'message': {'detail': wrong}, 'type': 'invalid_request_error', 'param': None, 'code': None}, 422)
