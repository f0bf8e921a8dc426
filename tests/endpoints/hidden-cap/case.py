"""chat/tools: the server stops each response after 256 tokens with `stop`, before the model's call."""
from mock import *
class C(Case):
    budget = 'steps = 6\nwall_seconds = 60'
    def script(self, conv): return [lambda: chat_call('ls')]
    def answer(self, conv, k, body):
        if k == 0: return chat_call('ls')
        text = 'The package converts numbers into Roman numerals. ' * 12 + 'So the function that is missing has to'
        u = {'prompt_tokens': 900, 'completion_tokens': 256, 'total_tokens': 1156}
        if body.get('stream'): return chat({'role': 'assistant', 'content': text}, fin='stop', usage=u)
        return js({'id': 'x', 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'stop', 'message': {'role': 'assistant', 'content': text}}], 'usage': u})
