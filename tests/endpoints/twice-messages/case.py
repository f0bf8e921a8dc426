"""Like twice-sent, messages/bash: each event of a stream is sent twice (equal bytes, equal indexes); without streaming it is correct. Expected: resolved. (luthien-proxy#59, #61)"""
from mock import *
TURNS = ['I look at the package.\n\n' + ASK % 'ls; cat numerals/roman.py', 'I write the function and export it.\n\n' + ASK % SOLVE, 'I run the tests.\n\n' + ASK % TEST, 'Done.\n\n' + ASK % 'proctor-submit']
class C(Case):
    api = 'messages'
    scaffold = 'bash'
    def answer(self, conv, k, body):
        text = TURNS[min(turns(body), 3)]
        r = m_out(body, [{'type': 'text', 'text': text}], 'end_turn', n_of(body), n_of(text))
        if body.get('stream') and turns(body):
            head, delta, tail = r.pieces[:2], r.pieces[2], r.pieces[3:]
            ds = [f"event: content_block_delta\ndata: {json.dumps({'type': 'content_block_delta', 'index': 0, 'delta': {'type': 'text_delta', 'text': t}})}\n\n".encode() for t in __import__('re').findall(r'```|\n\n|\n| ?\w+| ?[^\w\s]+| +', text)]
            r.pieces = head + [d for d in ds for _ in ((0,) if GOOD else (0, 1))] + tail
        return r
