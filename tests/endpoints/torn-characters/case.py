"""chat endpoint: in streams a character of several bytes comes as U+FFFD (split before it was decoded), always; unstreamed it is right. The command needs the character. (claude-code#48904, #42867)"""
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
