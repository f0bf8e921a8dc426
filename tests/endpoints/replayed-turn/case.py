"""chat/tools behind a semantic cache: every later request gets the exact bytes of the first response. The model never received the requests."""
from mock import *
FIRST = {'id': 'chatcmpl-8c41f0d2a97b', 'tool_calls': [tcall(args=sh('ls'), id='call_77ab19cd')]}
class C(Case):
    budget = 'steps = 6\nwall_seconds = 60'
    def answer(self, conv, k, body):
        return sse(chunk({'role': 'assistant', 'tool_calls': FIRST['tool_calls']}, id=FIRST['id']), chunk({}, 'tool_calls', id=FIRST['id']), chunk(usage=USAGE, id=FIRST['id']))
