"""chat/tools, z.ai: finish_reason model_context_window_exceeded, no text, usage 0, for a tiny prompt (a fault of the service), three times, then a valid response. (moai-adk#676, opencode#18813)"""
from mock import *
class C(Case):
    n = 0
    timeout = 60
    model = 'context_window = 200000'
    def answer(self, conv, k, body):
        if k == 1 and self.n < 3:
            self.n += 1
            r = chat({'role': 'assistant', 'content': ''}, fin='model_context_window_exceeded', usage={'prompt_tokens': 0, 'completion_tokens': 0, 'total_tokens': 0}); r.counts = False; return r
        return [chat_call, lambda: solve('chat'), chat_submit][min(k, 2)]()
