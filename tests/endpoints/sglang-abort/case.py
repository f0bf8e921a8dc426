"""chat/tools, SGLang/vLLM: finish_reason abort (the server aborted the request) with partial text, three times in a row, then a valid response."""
from mock import *
class C(Case):
    n = 0
    timeout = 60
    def answer(self, conv, k, body):
        if k == 1 and self.n < 4:
            self.n += 1
            r = chat({'role': 'assistant', 'content': 'I look at the package and then I'}, fin='abort'); r.counts = False; return r
        return [chat_call, lambda: solve('chat'), chat_submit][min(k, 2)]()
