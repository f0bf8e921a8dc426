"""chat/tools, honest, Portkey before Bedrock: `prompt_tokens` excludes cached tokens (368 of 10,904). The model reads a long log, then gives up with text: scored. (Portkey-AI/gateway#1210, #1211)"""
from mock import *
class C(Case):
    def answer(self, conv, k, body):
        usage = {'prompt_tokens': 368, 'completion_tokens': 19, 'total_tokens': 10923, 'cache_read_input_tokens': 10536, 'cache_creation_input_tokens': 0}
        if k == 0: return chat_call('for i in $(seq 1 900); do echo "2026-11-26 line $i of the long log of the build"; done', usage=usage)
        text = 'I am sorry, but the log of the build does not tell me how Roman numerals are read here. I stop.'
        if body.get('stream'): return chat({'role': 'assistant', 'content': text}, fin='stop', usage=usage)
        return js({'id': nid('x'), 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'stop', 'message': {'role': 'assistant', 'content': text}}], 'usage': usage})
