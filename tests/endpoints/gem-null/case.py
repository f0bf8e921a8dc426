"""Like null-stop, gemini/tools: from step 2 on, every response is broken off in mid-sentence without a finishReason, streamed or not. Expected: a fault; never three answers of the model without a call."""
from mock import *
class C(Case):
    api = 'gemini'
    def handle(self, raw, headers, path):
        self.streams = 'stream' in path
        return super().handle(raw, headers, path)
    def answer(self, conv, k, body):
        t = sum(c['role'] == 'model' for c in body['contents'])
        if t and not GOOD: return g_out(self.streams, [{'text': 'Now that I have seen how numerals are written, I can add the func'}], n_of(body), 17, None)
        return g_out(self.streams, [[gcall('cat numerals/roman.py')], [gcall(SOLVE)], [gcall(name='submit', args={})]][min(t, 2)], n_of(body), 60)
