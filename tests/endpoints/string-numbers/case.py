"""chat/tools, parsers that return every argument of a nullable type as a string: timeout `"null"`, `"60"`, `"None"`, streamed or not. (vllm#37831, sglang#15135, smg#1841)"""
from mock import *
class C(Case):
    sticky = True
    def say(self, body, name, arguments, usage=USAGE):
        c = tcall(name, arguments)
        if body.get('stream'): return chat({'role': 'assistant', 'tool_calls': [c]}, usage=usage)
        c.pop('index')
        return js({'id': 'x', 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'tool_calls', 'message': {'role': 'assistant', 'content': None, 'tool_calls': [c]}}], 'usage': usage})
    def answer(self, conv, k, body):
        name, a = [('shell', {'command': 'ls', 'timeout': 'null'}), ('shell', {'command': SOLVE, 'timeout': '60'}), ('shell', {'command': 'ls', 'timeout': 'None'}), ('submit', {})][min(k, 3)]
        return self.say(body, name, json.dumps(a))
    def check(self, conv, k, body, h):
        last = body['messages'][-1]
        if k == 3 and last['role'] == 'tool': print('   result with "None":', str(last['content'])[:120])
