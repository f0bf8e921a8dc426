"""chat/tools behind a cache: from step 2 on, each request gets the same text with the same id, and its tokens are counted. The second one is a replay. A resumed try must still recognize it: a fault in every try, never three texts without a call."""
from mock import *
class C(Case):
    sticky = True
    budget = 'steps = 6\nwall_seconds = 60'
    timeout = 150
    def answer(self, conv, k, body):
        usage = {'prompt_tokens': 400, 'completion_tokens': 14, 'total_tokens': 414}
        if k == 0: return chat_call('ls', usage=usage)
        i = 'chatcmpl-8c41f0d2a97b'
        return sse(chunk({'role': 'assistant', 'content': 'The package has two modules, and both look complete to me.'}, id=i), chunk({}, 'stop', id=i), chunk(usage=usage, id=i))
