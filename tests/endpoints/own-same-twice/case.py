"""chat/tools, honest: like cached-trial, but without a cache: at temperature 0, the model writes the same responses in both attempts, and each response has an id of its own: resolved."""
from mock import *
import re, uuid
class C(Case):
    args = ['--set', 'attempts=2', '--jobs', '1']
    def answer(self, conv, k, body):
        name, args = [('shell', sh('ls; cat numerals/roman.py')), ('shell', sh(SOLVE)), ('shell', sh(TEST)), ('submit', {})][min(steps(body), 3)]
        r, id = call(body, name, args, use(n_of(body), 200)), 'chatcmpl-' + uuid.uuid4().hex
        r.pieces = [re.sub(rb'"chatcmpl-[0-9a-z]+"', json.dumps(id).encode(), p) for p in r.pieces]
        return r
