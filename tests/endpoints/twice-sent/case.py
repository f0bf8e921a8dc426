"""chat/bash, OpenClaw's and luthien's gateways: in streams, each chunk is sent twice (two listeners write to one response), so `I look` arrives as `II look look` and the fence as six backticks; without streaming it is correct. completion_tokens counts the text once. Expected: resolved; never scored. (openclaw#1284 "each content chunk was being emitted twice", luthien-proxy#61 "HeyHey!! What What are are", openclaw#98408)"""
from mock import *
TURNS = ['I look at the package.\n\n' + ASK % 'ls; cat numerals/roman.py', 'I write the function and export it.\n\n' + ASK % SOLVE, 'I run the tests.\n\n' + ASK % TEST, 'Done.\n\n' + ASK % 'proctor-submit']
import re
class C(Case):
    scaffold = 'bash'
    def answer(self, conv, k, body):
        text = TURNS[min(steps(body), 3)]
        u = use(n_of(body), n_of(text))
        if not body.get('stream'): return say(body, text, u)
        tokens = re.findall(r'```|\n\n|\n| ?\w+| ?[^\w\s]+| +', text)
        assert ''.join(tokens) == text
        cs = [{'content': t} for t in tokens]
        if steps(body) and not GOOD: cs = [c for c in cs for _ in (0, 1)]
        return out(body, {}, cs, 'stop', u)
