"""chat/bash, honest: the model always thinks and stops without text: scored."""
from mock import *
class C(Case):
    scaffold = 'bash'
    def answer(self, conv, k, body):
        usage = {'prompt_tokens': 400, 'completion_tokens': 42, 'total_tokens': 442}
        thought = 'I would list the files first:\n\n```bash\nls\n```'
        if body.get('stream'): return chat({'role': 'assistant', 'content': None}, {'reasoning_content': thought}, fin='stop', usage=usage)
        return js({'id': nid('x'), 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'stop', 'message': {'role': 'assistant', 'content': None, 'reasoning_content': thought}}], 'usage': usage})
