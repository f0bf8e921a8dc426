"""gemini/bash, Gemini 2.5 Flash and 3 Flash on Vertex and the Gemini API: from step 2 on, the thoughts arrive as an ordinary text part that begins with `THOUGHT:`, without `thought: true`, before the part with the answer, streamed or not. The drafts contain command blocks, and one of them submits. Expected: resolved, or a fault. A draft must never run or cost the trial. (python-genai#2121 "Gemini returns THOUGHT: content in text parts without part.thought=True", hermes-agent#102996)"""
from mock import *
TURNS = [
    ('', 'I look at the package first.\n\n' + ASK % 'ls; cat numerals/roman.py'),
    ('A first idea would be\n\n' + ASK % "echo 'from_roman = int' >> numerals/roman.py" + '\n\nno, that accepts anything. I compare with to_roman.', 'I write the function and export it.\n\n' + ASK % SOLVE),
    ('I could hand in now with\n\n' + ASK % 'proctor-submit' + '\n\nbut I have not run the tests. First the tests.', 'I run the tests.\n\n' + ASK % TEST),
    ('All pass. I hand in.', 'Done.\n\n' + ASK % 'proctor-submit'),
]
class C(Case):
    api = 'gemini'
    scaffold = 'bash'
    def handle(self, raw, headers, path):
        self.streams = 'stream' in path
        return super().handle(raw, headers, path)
    def answer(self, conv, k, body):
        n = sum(c['role'] == 'model' for c in body['contents'])
        thought, text = TURNS[min(n, 3)]
        parts = ([{'text': 'THOUGHT:\n' + thought + '\n\n', **({'thought': True} if GOOD else {})}] if thought else []) + [{'text': text}]
        return g_out(self.streams, parts, n_of(body), n_of(thought + text), thoughtsTokenCount=0)
