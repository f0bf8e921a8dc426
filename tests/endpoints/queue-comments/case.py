"""chat/tools: each response waits behind comments of a queue; the wall limit is reached there, and the queue took most of it."""
from mock import *
class C(Case):
    budget = 'steps = 12\nwall_seconds = 12'
    def answer(self, conv, k, body):
        queue = [p for _ in range(8) for p in (b': queued\n\n', 0.5)]
        answer = chat_call('ls')
        answer.pieces = queue + answer.pieces
        return answer
