"""chat/tools, new-api (Responses converted to Chat): the final event repeats the call with the same id, name and arguments at index 1. It must run once. (new-api#6278)"""
from mock import *
ONCE = 'test ! -e .once && touch .once || echo "raise SystemExit(1)" >> numerals/__init__.py\n'
class C(Case):
    def answer(self, conv, k, body):
        n, a = [('shell', sh('ls')), ('shell', sh(ONCE + SOLVE)), ('submit', {})][min(k, 2)]
        c = tcall(n, a, id=f'call_a{k}')
        if not body.get('stream'): c.pop('index'); return js({'id': 'x', 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'tool_calls', 'message': {'role': 'assistant', 'content': None, 'tool_calls': [c]}}], 'usage': USAGE})
        return sse(chunk({'role': 'assistant', 'tool_calls': [{**c, 'function': {'name': n, 'arguments': ''}}]}), chunk({'tool_calls': [{'index': 0, 'function': {'arguments': c['function']['arguments']}}]}), chunk({'tool_calls': [{**c, 'index': 1}]}), chunk({}, 'tool_calls'), chunk(usage=USAGE))
