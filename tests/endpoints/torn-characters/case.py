"""chat endpoint: in streams, multi-byte characters always arrive as U+FFFD (split before decoding); without streaming they are correct. The command needs the character. (claude-code#48904, #42867)"""
from mock import *
class C(Case):
    sticky = True
    def answer(self, conv, k, body):
        cmd = "test 'é€よ' = \"$(printf '\\303\\251\\342\\202\\254\\343\\202\\210')\" || exit 1\n" + SOLVE
        if body.get('stream'): cmd = cmd.replace('é', '\ufffd').replace('よ', '\ufffd\ufffd\ufffd')
        n, a = [('shell', sh('ls')), ('shell', sh(cmd)), ('submit', {})][min(k, 2)]
        c = tcall(n, json.dumps(a, ensure_ascii=False))
        if not body.get('stream'): c.pop('index'); return js({'id': 'x', 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'tool_calls', 'message': {'role': 'assistant', 'content': None, 'tool_calls': [c]}}], 'usage': USAGE})
        return chat({'role': 'assistant', 'tool_calls': [c]})
