"""gemini/tools, Gemini under load: 499 `The operation was cancelled.` four times at step 2, then fine. (gemini-cli#20309, llumiverse#467)"""
from mock import *
class C(Case):
    api = 'gemini'
    n = 0
    def script(self, conv): return [lambda: gem(gcall('ls', sig='GS'))]
    def check(self, conv, k, body, h):
        if k == 1 and self.n < 4:
            self.n += 1; return js({'error': {'code': 499, 'message': 'The operation was cancelled.', 'errors': [{'message': 'The operation was cancelled.', 'domain': 'global', 'reason': 'backendError'}], 'status': 'CANCELLED'}}, 499)
