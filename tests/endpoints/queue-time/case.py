"""chat/tools, Groq (and Cerebras: `time_info`): under load, a request waits in the service's queue without a byte or a comment. The response states the wait in `usage.queue_time`, streamed or not. The model needs 0.3 s for each of its five turns, and the wall limit is 10 s: resolved. (langchain#20839, eliza#8434)"""
from mock import *
CMDS = ['ls; cat numerals/roman.py', 'cat numerals/__init__.py', SOLVE, TEST]
class C(Case):
    budget = 'steps = 12\nwall_seconds = 10'
    timeout = 100
    def answer(self, conv, k, body):
        step = steps(body)
        u = use(n_of(body), 60, queue_time=2.5, prompt_time=0.05, completion_time=0.25, total_time=0.3)
        r = call(body, 'shell', sh(CMDS[step]), u) if step < 4 else call(body, 'submit', {}, u)
        r.pieces = [2.5, *r.pieces[:1], 0.3, *r.pieces[1:]]
        return r
