"""chat/bash, forgets-task without tools: prompt_tokens stay near 3,300 while the conversation grows, and the model answers without a command because it no longer knows the task: a fault. (ollama#18107)"""
from mock import *
class C(Case):
    scaffold = 'bash'
    sticky = True
    budget = 'steps = 12\nwall_seconds = 60'
    timeout = 150
    def answer(self, conv, k, body):
        n = min(len(json.dumps(body['messages'])) // 4, 3400 - 20 * k)
        u = {'prompt_tokens': n, 'completion_tokens': 27, 'total_tokens': n + 27}
        text = '```bash\nfor i in $(seq 1 150); do echo "2026-11-26 line $i of the long log of the build"; done\n```' if k < 3 else 'Hello! How can I help you with these logs today?'
        return chat({'role': 'assistant', 'content': text}, fin='stop', usage=u)
