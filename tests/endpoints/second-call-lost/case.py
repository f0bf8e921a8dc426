"""chat/tools, SGLang: of two calls in one increment, the second one has no arguments (`''`), always in streams; without streaming both are complete. (sglang#37634)"""
from mock import *
TOLD = {'prompt_tokens': 100, 'completion_tokens': 180, 'total_tokens': 280}
class C(Case):
    sticky = True
    def answer(self, conv, k, body):
        calls = [[tcall(args=sh('ls')), tcall(args=sh('pwd'), index=1)], [tcall(args=sh('ls numerals')), tcall(args=sh(SOLVE), index=1)], [tcall('submit', {})]][min(k, 2)]
        if body.get('stream'):
            if len(calls) > 1: calls[1]['function']['arguments'] = ''
            return chat({'role': 'assistant', 'tool_calls': calls}, usage=TOLD)
        for c in calls: c.pop('index')
        return js({'id': 'x', 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'tool_calls', 'message': {'role': 'assistant', 'content': None, 'tool_calls': calls}}], 'usage': TOLD})
