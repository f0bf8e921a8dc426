"""Like 177b, but the server sends no byte at all."""
from mock import *
class C(Case):
    budget = 'steps = 12\nwall_seconds = 30'
    timeout = 60
    def script(self, conv): return [chat_call]
    def answer(self, conv, k, body):
        if k >= 1: return R([b'', 200])
        return Case.answer(self, conv, k, body)
