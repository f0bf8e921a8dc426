"""chat/tools: the model works, then ends with a response that quotes a call as an example in its prose: scored."""
from mock import *
class C(Case):
    budget = 'steps = 8\nwall_seconds = 120'
    timeout = 200
    def answer(self, conv, k, body):
        if k < 2: return self.give(body, {'tool_calls': [tcall('shell', sh('ls'))]}, 'tool_calls')
        return self.give(body, {'content': 'I did not change anything, since the package already looks right to me. If you want to check it yourself, ask an agent to send a call such as\n\n```json\n{"name": "shell", "arguments": {"command": "python -m pytest -q", "timeout": null}}\n```\n\nand look at its output. That is all I have to say.'}, 'stop')
    def give(self, body, m, fin, u=USAGE):
        if body.get('stream'): return chat({'role': 'assistant', **m}, fin=fin, usage=u)
        for t in m.get('tool_calls', []): t.pop('index', None)
        return js({'id': nid('x'), 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': fin, 'message': {'role': 'assistant', 'content': None, **m}}], 'usage': u})
