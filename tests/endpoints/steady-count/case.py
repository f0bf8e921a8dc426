"""chat/tools, honest, a server that reports the same usage for every response. The model reads a long log, then gives up with text: scored."""
from mock import *
class C(Case):
    def answer(self, conv, k, body):
        usage = {'prompt_tokens': 100, 'completion_tokens': 20, 'total_tokens': 120}
        if k == 0: return chat_call('for i in $(seq 1 900); do echo "2026-11-26 line $i of the long log of the build"; done', usage=usage)
        text = 'I am sorry, but the log of the build does not tell me how Roman numerals are read here. I stop.'
        if body.get('stream'): return chat({'role': 'assistant', 'content': text}, fin='stop', usage=usage)
        return js({'id': nid('x'), 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'stop', 'message': {'role': 'assistant', 'content': text}}], 'usage': usage})
