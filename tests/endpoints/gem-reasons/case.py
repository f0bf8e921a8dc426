"""gemini/tools: a finishReason (env REASON) with partial text at step 2, N times (env N, default 1), then a valid response. (ai-dial-adapter-vertexai#85: RECITATION on 'count from 1 to 100')"""
from mock import *
R_, N_ = os.environ.get('REASON', 'RECITATION'), int(os.environ.get('N', '1'))
class C(Case):
    api = 'gemini'
    n = 0
    timeout = 60
    def answer(self, conv, k, body):
        if k == 1 and self.n < N_:
            self.n += 1
            r = sse({'promptFeedback': {'blockReason': R_[3:]}, 'usageMetadata': {'promptTokenCount': 100, 'totalTokenCount': 100}, 'modelVersion': 'mock'}, done=False) if R_.startswith('PF:') else gem({'text': 'def from_ro'}, fin=R_)
            r.counts = False; return r
        return [lambda: gem(gcall(sig='G')), lambda: solve('gemini'), lambda: submit('gemini')][min(k, 2)]()
