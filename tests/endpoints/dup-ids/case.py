"""messages/tools: a proxy gives two parallel calls the same id, and uses it again in the next turn; the API behind it requires unique ids. (claudegram#12, eca#233)"""
from mock import *
class C(Case):
    api = 'messages'
    def script(self, conv): return [lambda: msg(tuse('ls', 'toolu_0'), tuse('pwd', 'toolu_0')), lambda: msg(tuse('id', 'toolu_0'))]
    def check(self, conv, k, body, h):
        seen = set()
        for i, m in enumerate(body['messages']):
            if isinstance(m['content'], str): continue
            uses = []
            for j, b in enumerate(m['content']):
                if b['type'] == 'tool_use':
                    if b['id'] in seen: return merr(400, f'messages.{i}.content.{j}: `tool_use` ids must be unique')
                    seen.add(b['id']); uses.append(b['id'])
            if uses:
                r = [b['tool_use_id'] for b in body['messages'][i+1]['content'] if b['type'] == 'tool_result']
                if r != uses: return merr(400, f'messages.{i}: `tool_use` ids were found without `tool_result` blocks immediately after: {uses}. Each `tool_use` block must have a corresponding `tool_result` block in the next message.')
