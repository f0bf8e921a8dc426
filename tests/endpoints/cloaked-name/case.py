"""messages/tools, a router that renames tools (suffix _ide) and does not restore the names in streams; without streaming the names are correct. (9router#3466, #2391; CLIProxyAPI#1694)"""
from mock import *
class C(Case):
    api = 'messages'
    def answer(self, conv, k, body):
        seen = json.dumps([m for m in body['messages'] if m['role'] == 'assistant'])
        ok = 'MARK_LS' in seen and '_ide' not in seen
        name, inp = [('shell', sh('ls # MARK_LS')), ('shell', sh(SOLVE)), ('submit', {})][0 if not ok else (1 if 'from_roman' not in seen else 2)]
        if not body.get('stream'): return js({'id': 'msg_1', 'type': 'message', 'role': 'assistant', 'model': 'mock', 'content': [tuse(name=name, input=inp)], 'stop_reason': 'tool_use', 'usage': {'input_tokens': 94, 'output_tokens': 26}})
        return msg(tuse(name=name + '_ide', input=inp))
