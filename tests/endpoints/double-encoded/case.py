"""chat/tools: the server encodes the arguments twice, streamed or not: a JSON string that contains the object. (vllm#54964, langchain-oracle#70, forgecode#2764)"""
from mock import *
class C(Case):
    sticky = True
    def say(self, body, name, arguments, usage=USAGE):
        c = tcall(name, arguments)
        if body.get('stream'): return chat({'role': 'assistant', 'tool_calls': [c]}, usage=usage)
        c.pop('index')
        return js({'id': 'x', 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'tool_calls', 'message': {'role': 'assistant', 'content': None, 'tool_calls': [c]}}], 'usage': usage})
    def answer(self, conv, k, body):
        name, a = [('shell', sh('ls')), ('shell', sh(SOLVE)), ('submit', {})][min(k, 2)]
        return self.say(body, name, json.dumps(json.dumps(a)))
