"""chat/bash, vLLM with MiniMax M3 and its reasoning parser: in streams, `reasoning` is never set: `<mm:think>` drafts `</mm:think>` answer arrive as content, the marks in chunks of their own; without streaming, the response is split correctly. The drafts contain blocks too, and one of them submits. Expected: resolved. A draft must never run or cost the trial. (vllm#45687 "The reasoning parser only works in non-streaming", Primer#109)"""
from mock import *
TURNS = [
    ('Okay, the user wants from_roman. Each answer is one block, and in the end I hand in with\n\n' + ASK % 'proctor-submit' + '\n\nBut first I have to see the code.', 'I look at the package first.\n\n' + ASK % 'ls; cat numerals/roman.py'),
    ('A first idea would be\n\n' + ASK % "echo 'from_roman = int' >> numerals/roman.py" + '\n\nno, that accepts anything. I compare with to_roman.', 'I write the function and export it.\n\n' + ASK % SOLVE),
    ('I could start over with\n\n' + ASK % 'git checkout -- .' + '\n\nbut the work is fine. I run the tests.', 'I run the tests.\n\n' + ASK % TEST),
    ('All pass, so I hand in.', 'Done.\n\n' + ASK % 'proctor-submit'),
]
class C(Case):
    scaffold = 'bash'
    def answer(self, conv, k, body):
        thought, answer = TURNS[min(steps(body), 3)]
        u = use(n_of(body), n_of(thought + answer))
        if not body.get('stream'): return out(body, {'content': answer, 'reasoning': thought}, [], 'stop', u)
        return out(body, {}, [{'content': t} for t in ('<mm:think>', *pieces(thought), '</mm:think>', *pieces(answer))], 'stop', u)
