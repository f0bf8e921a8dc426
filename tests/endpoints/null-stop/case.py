"""messages/tools, converters before /v1/messages: twice at step 2, the stream of a response that the service broke off ends with a message_delta whose stop_reason is null, then message_stop, after a text that ends in mid-sentence (its call is lost); without streaming stop_reason is null, too. Then a valid response. Expected: resolved; never the model's answer without a call. (claux#14, LibreChat-AI/agents#308: clients map it to `stop`; openclaw#120030)"""
from mock import *
class C(Case):
    api = 'messages'
    n = 0
    def answer(self, conv, k, body):
        t = turns(body)
        if t >= 1 and self.n < 4 and not GOOD:
            self.n += 1
            r = m_out(body, [{'type': 'text', 'text': 'Now that I have seen how numerals are written, I can add the func'}], None, n_of(body), 17)
            return r
        return m_out(body, [tuse('cat numerals/roman.py') if t == 0 else tuse(SOLVE) if 'def from_roman(text: str) -> int:\\n    total' not in json.dumps(body) else tuse(name='submit', input={})], 'tool_use', n_of(body), 60)
