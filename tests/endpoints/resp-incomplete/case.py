"""responses/tools: a response that the server marked as incomplete (no limit, no filter) after partial text. Twice, then a valid response."""
from mock import *
class C(Case):
    api = 'responses'
    n = 0
    def script(self, conv): return []
    def answer(self, conv, k, body):
        if k == 1 and self.n < 2:
            self.n += 1
            half = {'type': 'message', 'id': 'msg_1', 'role': 'assistant', 'status': 'incomplete', 'content': [{'type': 'output_text', 'text': 'I wri', 'annotations': []}]}
            broken = resp(half, status='incomplete', incomplete={'reason': 'server_shutdown'})
            broken.counts = False
            return broken
        return [lambda: resp(fcall('ls')), lambda: solve('responses'), lambda: submit('responses')][min(k, 2)]()
