"""chat/bash, services without streaming: from step 2 on, the response is one JSON object, streamed or not, and its choice has the complete message in `delta` instead of `message`. Expected: resolved; never the model's empty turns. (librarium#167, chatgpt-java#31)"""
from mock import *
TURNS = ['I look at the package.\n\n' + ASK % 'ls; cat numerals/roman.py', 'I write the function and export it.\n\n' + ASK % SOLVE, 'I run the tests.\n\n' + ASK % TEST, 'Done.\n\n' + ASK % 'proctor-submit']
class C(Case):
    scaffold = 'bash'
    timeout = 500
    def answer(self, conv, k, body):
        text = TURNS[min(sum(m['role'] == 'assistant' and '```' in (m.get('content') or '') for m in body['messages']), 3)]
        u = use(n_of(body), n_of(text))
        if GOOD or not steps(body): return say(body, text, u)
        return js({'id': nid('chatcmpl-'), 'object': 'chat.completion', 'created': 1, 'model': 'mock', 'choices': [{'index': 0, 'delta': {'role': 'assistant', 'content': text}, 'finish_reason': 'stop'}], 'usage': u})
