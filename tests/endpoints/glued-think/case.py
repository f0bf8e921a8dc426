"""chat/bash, vLLM with a reasoning parser and speculative decoding (MTP): in streams, `</think>` arrives in the same delta as its neighbours, the parser misses it, and the thinking, `</think>` and the whole answer are sent as `reasoning`; content stays empty, finish_reason stop. Without streaming, the response is split correctly. Thinking is on (the default). Expected: resolved (by a request without streaming, or by reading after `</think>`); never the model's missing command. (vllm#55195 "mishandle markers in multi-token streaming deltas", #40816, #41561)"""
from mock import *
TURNS = [('I have to see the code first.', 'I look at the package.\n\n' + ASK % 'ls; cat numerals/roman.py'), ('I compare with to_roman.', 'I write it.\n\n' + ASK % SOLVE), ('Now the tests.', 'I run the tests.\n\n' + ASK % TEST), ('They pass.', 'Done.\n\n' + ASK % 'proctor-submit')]
class C(Case):
    scaffold = 'bash'
    def answer(self, conv, k, body):
        good = sum(m['role'] == 'assistant' and '```' in (m.get('content') or '') for m in body['messages'])
        thought, answer = TURNS[min(good, 3)]
        u = use(n_of(body), n_of(thought + answer), completion_tokens_details={'reasoning_tokens': n_of(thought)})
        if not body.get('stream'): return out(body, {'content': answer, 'reasoning': thought, 'reasoning_content': thought}, [], 'stop', u)
        return out(body, {}, [{'reasoning': p, 'reasoning_content': p} for p in pieces(f'{thought}\n</think>\n\n{answer}', 17)], 'stop', u)
