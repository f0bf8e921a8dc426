"""responses/tools, two tasks, Copilot: 401 token expired once during a trial (step 3 of A); the same key works again a moment later. (openclaw#25994, copilot-cli#3763, copilot-api#166)"""
from mock import *
class C(Case):
    api = 'responses'
    tasks = 'AB'
    n = 0
    def script(self, conv): return [lambda: resp(fcall('ls'))] * 3
    def check(self, conv, k, body, h):
        if conv == 'A' and k == 2 and not self.n:
            self.n = 1; return js({'error': {'message': 'unauthorized: token expired', 'code': 'unauthorized'}}, 401)
