"""chat/tools, honest: the model itself calls `sh`, streamed or not, then gives up: scored."""
from mock import *
class C(Case):
    sticky = True
    def answer(self, conv, k, body):
        message = {'content': 'The tool does not exist, so I give up.'} if k >= 3 else {'tool_calls': [tcall('sh', sh('ls'))]}
        fin = 'stop' if k >= 3 else 'tool_calls'
        if body.get('stream'): return chat({'role': 'assistant', **message}, fin=fin)
        for call in message.get('tool_calls', []): call.pop('index')
        return js({'id': nid('x'), 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': fin, 'message': {'role': 'assistant', 'content': None, **message}}], 'usage': USAGE})
