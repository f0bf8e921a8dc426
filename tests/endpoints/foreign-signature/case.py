"""messages/tools, a proxy over several accounts: from step 3 on another account responds, which rejects thinking signatures of the first one; without those blocks it accepts the request. (CLIProxyAPI#1584, ccs#415, Antigravity-Manager#498)"""
from mock import *
class C(Case):
    api = 'messages'
    def answer(self, conv, k, body):
        call = [tuse('ls'), tuse('pwd'), tuse(SOLVE), tuse(name='submit', input={})][min(k, 3)]
        return msg({'type': 'thinking', 'thinking': f'think{k}', 'signature': ('FIRST' if k < 2 else 'SECOND') + str(k)}, call)
    def check(self, conv, k, body, h):
        if k < 2: return None
        for i, m in enumerate(body['messages']):
            for j, b in enumerate(m['content'] if isinstance(m['content'], list) else []):
                if b['type'] == 'thinking' and b['signature'].startswith('FIRST'):
                    return merr(400, f'messages.{i}.content.{j}: Invalid `signature` in `thinking` block')
                if b['type'] == 'thinking' and not b['signature'].startswith('SECOND'):
                    return merr(400, f'messages.{i}.content.{j}.thinking.signature: Field required')
