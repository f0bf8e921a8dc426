"""chat/bash, DashScope: each delta contains the whole text so far instead of the new part; the last one has finish_reason. (qwen-code#3896, #3279, #3806)"""
from mock import *
class C(Case):
    scaffold = 'bash'
    def answer(self, conv, k, body):
        t = ['I look at the package first.\n\n```bash\nls\n```', 'Now I write the function.\n\n```bash\n' + SOLVE + '\n```', 'Done.\n\n```bash\nproctor-submit\n```'][min(k, 2)]
        if not body.get('stream'): return js({'id': 'x', 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'stop', 'message': {'role': 'assistant', 'content': t}}], 'usage': USAGE})
        n = max(6, len(t) // 10)
        return sse(*[chunk({'role': 'assistant', 'content': t[:i]}) for i in [*range(n, len(t), n), len(t)]], chunk({'content': ''}, 'stop'), chunk(usage=USAGE))
