"""chat/tools, LiteLLM and other proxies with a cache that all clients share and that ignores `no-cache`: each request of the second attempt gets the response of the first attempt, with the same id. The second attempt would repeat the first one, and the model never received its requests: a fault. (litellm#12234, semantic-router#36)"""
from mock import *
import re, uuid
def with_id(r, id):
    r.pieces = [re.sub(rb'"chatcmpl-[0-9a-z]+"', json.dumps(id).encode(), p) for p in r.pieces]
    return r
class C(Case):
    args = ['--set', 'attempts=2', '--jobs', '1']
    def answer(self, conv, k, body):
        ids = self.__dict__.setdefault('ids', {})
        n = steps(body)
        name, args = [('shell', sh('ls; cat numerals/roman.py')), ('shell', sh(SOLVE)), ('shell', sh(TEST)), ('submit', {})][min(n, 3)]
        if n not in ids or GOOD: ids[n] = 'chatcmpl-' + uuid.uuid4().hex
        return with_id(call(body, name, args, use(n_of(body), 200)), ids[n])
