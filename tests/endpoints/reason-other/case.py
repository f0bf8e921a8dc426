"""chat/tools, gateways on the AI SDK: the provider's stream breaks off, and the gateway ends its own with the finish_reason `other` (or env REASON), streamed or not, in every response from step 2 on. The text stops in the middle of a sentence, and its call is lost. Expected: a fault; never answers of the model without a call. (opencode#26170 "finishReason: other ... silently accepted", vercel/ai#2665 "unknown")"""
from mock import *
class C(Case):
    def answer(self, conv, k, body):
        n = steps(body)
        if n == 0: return call(body, 'shell', sh('ls; cat numerals/roman.py'), use(n_of(body), 20))
        if GOOD: return call(body, *[('shell', sh(SOLVE)), ('submit', {})][min(n - 1, 1)], use(n_of(body), 200))
        text = ['The module has a table of values, so I can walk through it from the largest numeral and subtract', 'I now add the function below `to_roman`, and the export has to be changed as well, because', 'Let me first write the function, which compares its result with'][min(n - 1, 2) if n < 4 else 2]
        return say(body, text, use(n_of(body), n_of(text)), fin=os.environ.get('REASON', 'other'))
