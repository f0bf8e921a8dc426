"""chat/bash, FastChat and vLLM with a conversation template or generation config whose stop strings are `###` (Vicuna, Koala, xgen): the server stops before the first `###`, although the request sets no stop, streamed or not: finish_reason `stop`, and vLLM's `stop_reason` is `###` (null at the model's own end). The model writes a markdown heading before each command, so its commands are lost from step 2 on. Expected: a fault with a hint (or resolved); never the model's answers without a command. (FastChat#2350 "model responses stop abruptly", vllm#2976 "EOS can be inferred iff stop_reason is None")"""
from mock import *
TURNS = ['I look at the package.\n\n' + ASK % 'ls; cat numerals/roman.py', 'The package writes numerals greedily, so I can read them greedily and compare.\n\n### The function\n\n' + ASK % SOLVE, 'Done.\n\n### Hand in\n\n' + ASK % 'proctor-submit']
class C(Case):
    scaffold = 'bash'
    def answer(self, conv, k, body):
        text = TURNS[min(steps(body), 2 if GOOD else 1)]
        cut = text if GOOD else text.split('###')[0]
        return say(body, cut, use(n_of(body), n_of(cut)), stop_reason='###' if cut != text else None)
