"""chat/tools: queue comments precede each response; the wall limit is reached during them, and the queue took most of the time."""
from mock import *
class C(Case):
    budget = 'steps = 60\nwall_seconds = 6'
    def answer(self, conv, k, body):
        queue = [p for _ in range(8) for p in (b': queued\n\n', 0.5)]
        answer = chat_call('ls')
        answer.pieces = queue + answer.pieces
        return answer
