"""Like stop-string, messages/bash: stop_reason `stop_sequence` with stop_sequence `###`, although the request sets no stop_sequences. Expected: a fault with a hint (or resolved)."""
from mock import *
TURNS = ['I look at the package.\n\n' + ASK % 'ls; cat numerals/roman.py', 'The package writes numerals greedily, so I can read them greedily and compare.\n\n### The function\n\n' + ASK % SOLVE, 'Done.\n\n### Hand in\n\n' + ASK % 'proctor-submit']
class C(Case):
    api = 'messages'
    scaffold = 'bash'
    def answer(self, conv, k, body):
        text = TURNS[min(turns(body), 2 if GOOD else 1)]
        cut = text if GOOD else text.split('###')[0]
        r = m_out(body, [{'type': 'text', 'text': cut}], 'end_turn' if cut == text else 'stop_sequence', n_of(body), n_of(cut))
        if cut != text: r.pieces = [p.replace(b'"stop_sequence", "stop_sequence": null', b'"stop_sequence", "stop_sequence": "###"') for p in r.pieces]
        return r
