"""chat/tools, honest: after its first call, the model writes a timeout of half a second three times, which is not an integer, and gives up with text: scored."""
from mock import *
class C(Case):
    def answer(self, conv, k, body):
        if k == 0: return chat_call('ls')
        if k < 4: return chat({'role': 'assistant', 'tool_calls': [tcall(args={'command': 'ls', 'timeout': 0.5})]})
        return chat({'role': 'assistant', 'content': 'The tools reject my arguments each time, so I stop here without a solution.'}, fin='stop', usage={'prompt_tokens': 400, 'completion_tokens': 22, 'total_tokens': 422})
