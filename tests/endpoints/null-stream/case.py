"""chat/bash, mistral.rs without a reasoning parser: from step 2 on, `delta.content` is null in each chunk of a stream, although the model wrote a command and its tokens are counted. Without streaming, the response is complete. Expected: resolved; never the model's empty turns. (mistral.rs#2294 "chunks where choices[].delta.content stayed null")"""
from mock import *
TURNS = ['I look at the package.\n\n' + ASK % 'ls; cat numerals/roman.py', 'I write the function and export it.\n\n' + ASK % SOLVE, 'I run the tests.\n\n' + ASK % TEST, 'Done.\n\n' + ASK % 'proctor-submit']
class C(Case):
    scaffold = 'bash'
    def answer(self, conv, k, body):
        n = steps(body)
        text = TURNS[min(sum(m['role'] == 'assistant' and '```' in (m.get('content') or '') for m in body['messages']), 3)]
        u = use(n_of(body), n_of(text) + 3)
        if GOOD or not body.get('stream') or not n and not os.environ.get('ALWAYS'): return say(body, text, u)
        return out(body, {}, [{'content': None} for _ in pieces(text, 4)], 'stop', u)
