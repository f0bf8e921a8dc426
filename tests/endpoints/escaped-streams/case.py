"""chat/tools: a proxy escapes streamed responses for HTML; complete responses are correct."""
from mock import *
import html
class C(Case):
    sticky = True
    def answer(self, conv, k, body):
        name, a = [('shell', sh('cd numerals && python3 -c "print(1 < 2)"')), ('shell', sh(SOLVE)), ('submit', {})][min(k, 2)]
        if body.get('stream'): a = {key: html.escape(value) if isinstance(value, str) else value for key, value in a.items()}
        c = tcall(name, a)
        if body.get('stream'): return chat({'role': 'assistant', 'tool_calls': [c]})
        c.pop('index')
        return js({'id': 'x', 'model': 'mock', 'object': 'chat.completion', 'choices': [{'index': 0, 'finish_reason': 'tool_calls', 'message': {'role': 'assistant', 'content': None, 'tool_calls': [c]}}], 'usage': USAGE})
