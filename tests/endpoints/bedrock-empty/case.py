"""messages/tools over Bedrock: empty or whitespace-only text blocks are rejected everywhere, also in results; the model runs `true`, then prints blanks. (hermes-agent#55093)"""
from mock import *
class C(Case):
    api = 'messages'
    def script(self, conv): return [lambda: msg(tuse('true')), lambda: msg(tuse("printf '\\n  \\n'")), lambda: msg({'type': 'text', 'text': ''}, tuse('ls')), lambda: msg({'type': 'text', 'text': '   '}, stop='end_turn')]
    def check(self, conv, k, body, h):
        E = lambda w: merr(400, f'{w}: text content blocks must be non-empty')
        for i, m in enumerate(body['messages']):
            c = m['content']
            if isinstance(c, str):
                if not c.strip(): return E(f'messages.{i}')
                continue
            if not c: return merr(400, f'messages.{i}: all messages must have non-empty content except for the optional final assistant message')
            for j, b in enumerate(c):
                if b['type'] == 'text' and not b['text'].strip(): return E(f'messages.{i}.content.{j}')
                if b['type'] == 'tool_result':
                    x = b.get('content')
                    if x is None or x == [] or (isinstance(x, str) and not x.strip()): return E(f'messages.{i}.content.{j}.content')
                    for y in x if isinstance(x, list) else []:
                        if y['type'] == 'text' and not y['text'].strip(): return E(f'messages.{i}.content.{j}.content.0')
            if i and body['messages'][i-1]['role'] == m['role']: return merr(400, 'messages: roles must alternate between "user" and "assistant", but found multiple "%s" roles in a row' % m['role'])
