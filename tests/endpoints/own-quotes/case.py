"""chat/tools, honest: after its first call the model itself puts its commands in quotes, streamed or not, sees 127 each time, and gives up with text: scored."""
from mock import *
class C(Case):
    def answer(self, conv, k, body):
        s = steps(body); u = use(n_of(body), 30)
        if s == 0: return call(body, 'shell', sh('ls; cat numerals/roman.py'), u)
        if s < 5: return call(body, 'shell', sh('"sed -n 1,5p numerals/roman.py"'), u)
        return say(body, 'The shell does not find my commands, so I stop here.', u)
