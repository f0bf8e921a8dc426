"""gemini/tools, Gemini under load: 499 `The operation was cancelled.` three times at each of steps 2 to 4. (gemini-cli#20309, llumiverse#467)"""
from mock import *
class C(Case):
    api = 'gemini'
    n = 0
    def script(self, conv): return [lambda: gem(gcall('ls', sig='GS'))] * 3
    def check(self, conv, k, body, h):
        if 1 <= k <= 3 and self.n < 3 * k:
            self.n += 1; return js({'error': {'code': 499, 'message': 'The operation was cancelled.', 'errors': [{'message': 'The operation was cancelled.', 'domain': 'global', 'reason': 'backendError'}], 'status': 'CANCELLED'}}, 499)
