"""chat/tools, LiteLLM: the provider's stream broke off, and LiteLLM sent finish_reason stop after a partial call (without usage): five times, then a valid response. (litellm#40260, #42085)"""
from mock import *
class C(Case):
    n = 0
    timeout = 60
    def answer(self, conv, k, body):
        if k >= 1 and self.n < 5:
            self.n += 1
            return sse(chunk({'role': 'assistant', 'content': 'I write it.'}), chunk({'tool_calls': [tcall(args='{"command": "cat >> numerals/ro')]}), chunk({}, 'stop'))
        return [chat_call, lambda: solve('chat'), chat_submit][0 if k < 1 else min(k - 5, 2)]()
