"""chat/bash, RAGFlow and others: after correct deltas, one more delta contains the whole response again (with finish_reason), always in streams; without streaming it is correct. The command appends and must run once. (ragflow#15286/15443, hermes-browser-extension#11)"""
from mock import *
ONCE = 'test ! -e .once && touch .once || echo "raise SystemExit(1)" >> numerals/__init__.py\n'
class C(Case):
    scaffold = 'bash'
    def answer(self, conv, k, body):
        t = ['I look at the package first.\n\n```bash\nls\n```', 'Now I write the function.\n\n```bash\n' + ONCE + SOLVE + '\n```', 'Done.\n\n```bash\nproctor-submit\n```'][min(k, 2)]
        if not body.get('stream'): return js({'id': 'x', 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'stop', 'message': {'role': 'assistant', 'content': t}}], 'usage': USAGE})
        return sse(*[chunk({'role': 'assistant', 'content': t[i:i+25]}) for i in range(0, len(t), 25)], chunk({'content': t}), chunk({'content': None}, 'stop'), chunk(usage=USAGE))
