"""chat/tools: the template supports one call per turn, and the model made two."""
from mock import *
class C(Case):
    def script(self, conv): return [lambda: chat({'role': 'assistant', 'tool_calls': [tcall(args=sh('ls')), tcall(args=sh('pwd'), index=1)]})]
    def check(self, conv, k, body, h):
        open_ = None
        for m in body['messages']:
            if m['role'] == 'assistant':
                if len(m.get('tool_calls') or []) > 1: return err(400, 'This model only supports single tool-calls at once!')
                open_ = [c['id'] for c in m.get('tool_calls') or []]
            if m['role'] == 'tool':
                if not open_ or m['tool_call_id'] != open_[0]: return err(400, 'Unexpected tool message')
                open_ = None
