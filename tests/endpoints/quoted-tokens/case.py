"""chat/bash, honest: the model writes no command and quotes special tokens in backticks and a code block: scored."""
from mock import *
class C(Case):
    scaffold = 'bash'
    def answer(self, conv, k, body):
        text = f'Step {k}: the tokenizer adds `<|im_end|>` to each turn:\n\n```text\n<|im_start|>user\n```\n\nThat is all I can say.'
        n = len(json.dumps(body)) // 4
        u = {'prompt_tokens': n, 'completion_tokens': 29, 'total_tokens': n + 29}
        if body.get('stream'): return chat({'role': 'assistant', 'content': text}, fin='stop', usage=u)
        return js({'id': nid('x'), 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'stop', 'message': {'role': 'assistant', 'content': text}}], 'usage': u})
