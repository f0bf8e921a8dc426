"""Like run-of-g, chat/bash: the run of `G` continues up to the request's max_tokens: finish_reason `length`, completion_tokens equal to the limit of the arm (2,000). This is not a long answer of the model: a fault (or resolved)."""
from mock import *
class C(Case):
    scaffold = 'bash'
    model = 'max_output_tokens = 2000'
    def answer(self, conv, k, body):
        if k == 0: return say(body, 'I look.\n\n' + ASK % 'cat numerals/*.py', use(n_of(body), 30))
        return say(body, 'G' * 8000, use(n_of(body), 2000), 'length')
