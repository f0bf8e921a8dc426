"""chat client (CLI): the final response quotes the markup of a call in backticks inside a sentence: scored."""
from mock import *
class C(Case):
    budget = 'steps = 8\nwall_seconds = 120'
    scaffold = '../cli/chat.toml'
    timeout = 200
    def answer(self, conv, k, body):
        if k < 1: return self.give(body, {'tool_calls': [tcall('shell', {'command': 'ls'})]}, 'tool_calls')
        return self.give(body, {'content': 'Nothing to do here. For the record: my chat template writes `<tool_call>{"name": "shell", "arguments": {"command": "ls"}}</tool_call>` when I list files, which I did once, and the listing showed the package. I stop now.'}, 'stop')
    def give(self, body, m, fin, u=USAGE):
        if body.get('stream'): return chat({'role': 'assistant', **m}, fin=fin, usage=u)
        for t in m.get('tool_calls', []): t.pop('index', None)
        return js({'id': nid('x'), 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': fin, 'message': {'role': 'assistant', 'content': None, **m}}], 'usage': u})
