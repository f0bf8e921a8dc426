"""messages/bash: like reason-other, with the stop_reason `other` (or env REASON). Expected: a fault; never answers of the model without a command. (opencode#26170)"""
from mock import *
TURNS = ['I look at the package.\n\n' + ASK % 'ls; cat numerals/roman.py', 'I write the function and export it.\n\n' + ASK % SOLVE, 'Done.\n\n' + ASK % 'proctor-submit']
class C(Case):
    api = 'messages'
    scaffold = 'bash'
    def answer(self, conv, k, body):
        n = turns(body); text = TURNS[min(n, 2)]; stop = 'end_turn'
        if n and not GOOD: text, stop = 'The table of values is sorted, so I can walk through it from the largest numeral and subtract', os.environ.get('REASON', 'other')
        return m_out(body, [{'type': 'text', 'text': text}], stop, n_of(body), n_of(text))
