"""chat/bash, vLLM's reasoning parser with thinking disabled: each response arrives as reasoning, and content is null. (vllm#17349, #19222, #53284)"""
from mock import *
class C(Case):
    scaffold = 'bash'
    model = 'extra_body = { chat_template_kwargs = { enable_thinking = false } }'
    budget = 'steps = 12\nwall_seconds = 120'
    timeout = 150
    def answer(self, conv, k, body):
        text = f'```bash\n{["ls", SOLVE, "proctor-submit"][min(k, 2)]}\n```'
        if body.get('stream'): return chat({'role': 'assistant', 'content': None}, {'reasoning_content': text}, fin='stop')
        return js({'id': 'x', 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'stop', 'message': {'role': 'assistant', 'content': None, 'reasoning_content': text}}], 'usage': USAGE})
