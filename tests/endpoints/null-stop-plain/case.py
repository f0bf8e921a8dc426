"""Like null-stop, messages/tools: from step 2 on, every response is broken off in mid-sentence with stop_reason null, streamed (with message_stop) or not: the service behind the converter is down. Expected: a fault; never three answers of the model without a call."""
from mock import *
class C(Case):
    api = 'messages'
    def answer(self, conv, k, body):
        t = turns(body)
        if t and not GOOD: return m_out(body, [{'type': 'text', 'text': 'Now that I have seen how numerals are written, I can add the func'}], None, n_of(body), 17)
        return m_out(body, [[tuse('cat numerals/roman.py')], [tuse(SOLVE)], [tuse(name='submit', input={})]][min(t, 2)], 'tool_use', n_of(body), 60)
