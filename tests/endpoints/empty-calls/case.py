"""chat/bash, vLLM 0.22 behind a strict gateway: each delta and each message has an empty list of calls beside its text, but a request with an empty `tool_calls` is rejected, as OpenAI does. (vscode#330038)"""
from mock import *
TURNS = ['I look at the package.\n\n' + ASK % 'ls; cat numerals/roman.py', 'I write the function and export it.\n\n' + ASK % SOLVE, 'I run the tests.\n\n' + ASK % TEST, 'Done.\n\n' + ASK % 'proctor-submit']
class C(Case):
    scaffold = 'bash'
    def check(self, conv, k, body, h):
        for i, m in enumerate(body['messages']):
            if m.get('tool_calls') == []: return err(400, f"Invalid 'messages[{i}].tool_calls': empty array. Expected an array with minimum length 1, but got an empty array instead.", param=f'messages[{i}].tool_calls', code='empty_array')
    def answer(self, conv, k, body):
        text = TURNS[min(steps(body), 3)]
        return out(body, {'content': text, 'tool_calls': []}, [{'content': p, 'tool_calls': []} for p in pieces(text)], 'stop', use(n_of(body), n_of(text)))
