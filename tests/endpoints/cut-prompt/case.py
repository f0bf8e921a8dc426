"""chat/tools, Ollama with the default window of 4,096: the start of the prompt (system, tools, task) is silently discarded, and usage reports 2,050 tokens for a prompt of thousands; the model then greets. (ollama#17889, #3839; PuPu#129)"""
from mock import *
class C(Case):
    budget = 'steps = 12\nwall_seconds = 120'
    def answer(self, conv, k, body):
        size = len(json.dumps(body)) // 4
        if size > 4096: return chat({'role': 'assistant', 'content': 'Hello! It looks like you pasted the lines of a log. How can I help you with them today?'}, fin='stop', usage={'prompt_tokens': 2050, 'completion_tokens': 22, 'total_tokens': 2072})
        u = {'prompt_tokens': size, 'completion_tokens': 20, 'total_tokens': size + 20}
        return chat({'role': 'assistant', 'tool_calls': [tcall(args=sh('for i in $(seq 1 1500); do echo "2026-11-26 line $i of the long log of the build"; done'))]}, usage=u)
