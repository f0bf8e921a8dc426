"""messages/tools: call ids contain a dot and a colon; each result must use the id that its call was sent back with."""
from mock import *
class C(Case):
    api = 'messages'
    def script(self, conv): return [lambda: msg(tuse('ls', 'functions.shell:0')), lambda: msg(tuse('pwd', 'functions.shell:1'))]
    def check(self, conv, k, body, h):
        for i, m in enumerate(body['messages']):
            if isinstance(m['content'], str): continue
            uses = [b['id'] for b in m['content'] if b['type'] == 'tool_use']
            if uses:
                r = [b['tool_use_id'] for b in body['messages'][i+1]['content'] if b['type'] == 'tool_result']
                if r != uses: return merr(400, f'messages.{i}: `tool_use` ids were found without `tool_result` blocks immediately after: {uses}.')
