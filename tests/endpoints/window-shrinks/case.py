"""chat/bash, vLLM: max_tokens must fit into the rest of the 8,192-token window; each step leaves less room, and a smaller max_tokens is accepted. (vllm#42474)"""
from mock import *
class C(Case):
    scaffold = 'bash'
    model = 'max_output_tokens = 4096'
    def size(self, k): return [1000, 4600, 5400, 6200][min(k, 3)]
    def check(self, conv, k, body, h):
        want, n = body.get('max_tokens') or body.get('max_completion_tokens') or 0, self.size(k)
        if n + want > 8192: return js({'error': {'message': f"This model's maximum context length is 8192 tokens. However, you requested {want} output tokens and your prompt contains at least {n} input tokens, for a total of at least {n + want} tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value={n})", 'type': 'BadRequestError', 'param': 'input_tokens', 'code': 400}}, 400)
    def answer(self, conv, k, body):
        t = ['```bash\nfor i in $(seq 1 400); do echo "line $i of the long log of the build"; done\n```', '```bash\nls; cat numerals/*.py\n```', '```bash\n' + SOLVE + '\n```', '```bash\nproctor-submit\n```'][min(k, 3)]
        n = self.size(k)
        return chat({'role': 'assistant', 'content': t}, fin='stop', usage={'prompt_tokens': n, 'completion_tokens': 30, 'total_tokens': n + 30})
