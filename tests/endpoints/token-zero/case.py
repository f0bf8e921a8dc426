"""chat/tools, vLLM: NaN logits become token 0, which is `!`: from step 2 on, each response is 512 exclamation marks and `stop`, until the server is restarted. (vllm#53305, MTPLX#311, sglang#33187)"""
from mock import *
class C(Case):
    def answer(self, conv, k, body):
        if k == 0: return chat_call('ls')
        return chat({'role': 'assistant', 'content': ''}, *[{'content': '!' * 8}] * 64, fin='stop', usage={'prompt_tokens': 400, 'completion_tokens': 512, 'total_tokens': 912})
