"""chat/tools: once, a proxy returns its error as the text of the second response, without tokens."""
from mock import *
class C(Case):
    failed = False
    def answer(self, conv, k, body):
        if k == 1 and not self.failed:
            self.failed = True
            r = chat({'role': 'assistant', 'content': 'Error: upstream connect error or disconnect/reset before headers. reset reason: overflow'}, fin='stop', usage={'prompt_tokens': 0, 'completion_tokens': 0, 'total_tokens': 0})
            r.counts = False
            return r
        return super().answer(conv, k, body)
    def script(self, conv): return [lambda: chat_call('ls')]
