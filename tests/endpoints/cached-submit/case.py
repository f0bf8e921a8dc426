"""chat/tools, a semantic cache that all clients share: unless a request says `no-cache`, it gets the last response of the first attempt, which submits. Asked itself, the model solves the task: resolved; never an empty patch of the second attempt. (litellm#12234, semantic-router#3036 "without returning an incorrect, stale, unauthorized ... response")"""
from mock import *
import re, uuid
def with_id(r, id):
    r.pieces = [re.sub(rb'"chatcmpl-[0-9a-z]+"', json.dumps(id).encode(), p) for p in r.pieces]
    return r
class C(Case):
    args = ['--set', 'attempts=2', '--jobs', '1']
    cached = None
    def handle(self, raw, headers, path):
        self.bypass = 'no-cache' in (headers.get('cache-control') or '')
        return super().handle(raw, headers, path)
    def answer(self, conv, k, body):
        n, u = steps(body), use(n_of(body), 200)
        if self.cached and not self.bypass and not GOOD: return with_id(call(body, 'submit', {}, u), self.cached)
        id = 'chatcmpl-' + uuid.uuid4().hex
        name, args = [('shell', sh('ls; cat numerals/roman.py')), ('shell', sh(SOLVE)), ('shell', sh(TEST)), ('submit', {})][min(n, 3)]
        if name == 'submit': self.cached = self.cached or id
        return with_id(call(body, name, args, u), id)
