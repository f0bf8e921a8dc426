"""responses/tools, Azure: response.incomplete by content_filter with partial text once at step 2; the repeated request succeeds. (codex#17615, opencode#22444)"""
from mock import *
class C(Case):
    api = 'responses'
    n = 0
    def answer(self, conv, k, body):
        if k == 1 and self.n < 1:
            self.n += 1
            r = resp({'type': 'message', 'id': 'msg_1', 'role': 'assistant', 'status': 'incomplete', 'content': [{'type': 'output_text', 'text': "I'm sorry, but I cannot assist with that request.", 'annotations': []}]}, status='incomplete', incomplete={'reason': 'content_filter'}); r.counts = False; return r
        return [lambda: resp(fcall()), lambda: solve('responses'), lambda: submit('responses')][min(k, 2)]()
