"""chat/bash, honest: the model repeats the whole output that it was sent, word for word, then gives up without a command: scored."""
from mock import *
class C(Case):
    scaffold = 'bash'
    def answer(self, conv, k, body):
        if steps(body) == 0: text = 'I look at the package.\n\n' + ASK % 'ls; cat numerals/roman.py'
        else: text = shown(body)[1].strip() + '\n\nThat is what I see. I do not know how to go on from here.'
        return say(body, text, use(n_of(body), n_of(text)))
