"""chat/tools, OpenCode Zen: each stream ends after its last piece, without finish_reason and [DONE]; without streaming the response is complete. (opencode#43882, #43379)"""
from mock import *
class C(Case):
    sticky = True
    timeout = 200
    budget = 'steps = 12\nwall_seconds = 180'
    def answer(self, conv, k, body):
        call = [tcall(args=sh('ls')), tcall(args=sh(SOLVE)), tcall('submit', {})][min(k, 2)]
        if body.get('stream'): return sse(chunk({'role': 'assistant', 'content': ''}), chunk({'tool_calls': [call]}), chunk(usage=USAGE), done=False)
        call.pop('index')
        return js({'id': 'x', 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'tool_calls', 'message': {'role': 'assistant', 'content': None, 'tool_calls': [call]}}], 'usage': USAGE})
