"""chat/tools behind a proxy that always escapes every text for HTML: `&&` arrives as `&amp;&amp;`, so every command of the model fails. Not the model's failure."""
from mock import *
import html
class C(Case):
    sticky = True
    def answer(self, conv, k, body):
        name, a = [('shell', sh('cd numerals && python3 -c "print(1 < 2)"')), ('shell', sh(SOLVE)), ('submit', {})][min(k, 2)]
        a = {key: html.escape(value) if isinstance(value, str) else value for key, value in a.items()}
        return chat({'role': 'assistant', 'tool_calls': [tcall(name, a)]})
