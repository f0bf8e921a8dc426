"""chat/tools, honest: a server ends each complete response with calls with a finish_reason of its own (`tool_request`), streamed or not: resolved."""
from mock import *
class C(Case):
    def answer(self, conv, k, body):
        name, args = [('shell', sh('ls; cat numerals/roman.py')), ('shell', sh(SOLVE)), ('submit', {})][min(steps(body), 2)]
        return call(body, name, args, use(n_of(body), 200), fin='tool_request')
