"""Like null-stop, chat/tools: from step 2 on, every response is broken off in mid-sentence without a finish_reason, streamed (with [DONE]) or not (finish_reason null). Expected: a fault; never three answers of the model without a call."""
from mock import *
class C(Case):
    def answer(self, conv, k, body):
        t = steps(body); u = use(n_of(body), 17)
        if t and not GOOD: return say(body, 'Now that I have seen how numerals are written, I can add the func', u, None)
        return call(body, *[('shell', sh('cat numerals/roman.py')), ('shell', sh(SOLVE)), ('submit', {})][min(t, 2)], u)
