"""chat/tools, a gateway that converts Bedrock's responses to chat: newlines and tabs are unescaped in the strings of arguments, streamed or not. (goose#2892, omlx#1672, kimi-cli#1378)"""
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
        return self.say(body, name, json.dumps(a).replace('\\n', '\n'))
