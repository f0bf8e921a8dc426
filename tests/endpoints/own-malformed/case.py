"""chat/tools, honest: the model itself always writes malformed arguments, streamed or not, then gives up: scored."""
from mock import *
class C(Case):
    sticky = True
    def answer(self, conv, k, body):
        usage = {'prompt_tokens': 400, 'completion_tokens': 40, 'total_tokens': 440}
        if k >= 4:
            text = 'The tool does not accept my calls, so I give up.'
            if body.get('stream'): return chat({'role': 'assistant', 'content': text}, fin='stop', usage=usage)
            return js({'id': 'x', 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'stop', 'message': {'role': 'assistant', 'content': text}}], 'usage': usage})
        c = tcall(args='{command: sed -i "s/a/b/" numerals/roman.py, timeout: none')
        if body.get('stream'): return chat({'role': 'assistant', 'tool_calls': [c]}, usage=usage)
        c.pop('index')
        return js({'id': 'x', 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'tool_calls', 'message': {'role': 'assistant', 'content': None, 'tool_calls': [c]}}], 'usage': usage})
