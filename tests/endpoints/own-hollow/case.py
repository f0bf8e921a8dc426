"""chat/tools, honest: after its first call, the model thinks without showing it (60 tokens) and ends each turn without text and call, also if the request is repeated: scored."""
from mock import *
class C(Case):
    def answer(self, conv, k, body):
        if k == 0: return chat_call()
        usage = {'prompt_tokens': len(json.dumps(body)) // 4, 'completion_tokens': 61, 'completion_tokens_details': {'reasoning_tokens': 60}}
        return chat({'role': 'assistant', 'content': ''}, fin='stop', usage={**usage, 'total_tokens': usage['prompt_tokens'] + 61})
