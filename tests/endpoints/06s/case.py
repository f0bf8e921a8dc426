"""single-shot: a response has finish_reason network_error and no text. It must not be scored at once."""
from mock import *
class C(Case):
    scaffold = 'single-shot'
    budget = 'wall_seconds = 120'
    timeout = 25
    n = 0
    def answer(self, conv, k, body):
        return sse(chunk({'role': 'assistant', 'content': ''}), chunk({'content': ''}, 'network_error'))
