"""chat/bash, honest: the model itself omits the opening fence in each response, streamed or not: scored."""
from mock import *
class C(Case):
    scaffold = 'bash'
    def answer(self, conv, k, body):
        text = 'I list the files first:\n\nls\n```'
        if body.get('stream'): return chat({'role': 'assistant', 'content': text}, fin='stop')
        return js({'id': nid('x'), 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'stop', 'message': {'role': 'assistant', 'content': text}}], 'usage': USAGE})
