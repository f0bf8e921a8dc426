"""chat/bash, a server without the model's parsers: each response is a call in the model's own syntax, with its special tokens, and no command block: a fault with a hint, never scored."""
from mock import *
class C(Case):
    scaffold = 'bash'
    def answer(self, conv, k, body):
        text = f'Step {k}: I list the files.\n<|tool_call>call:bash{{command:<|"|>ls -la<|"|>}}<tool_call|>'
        n = len(json.dumps(body)) // 4
        u = {'prompt_tokens': n, 'completion_tokens': 29, 'total_tokens': n + 29}
        if body.get('stream'): return chat({'role': 'assistant', 'content': text}, fin='stop', usage=u)
        return js({'id': nid('x'), 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'stop', 'message': {'role': 'assistant', 'content': text}}], 'usage': u})
