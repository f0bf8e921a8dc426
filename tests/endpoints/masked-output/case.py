"""chat/tools behind a guardrail that always masks personal data in the model's output: `from_roman` arrives as `<PERSON>`, `2026` as `<DATE_TIME>`. Not the model's failure. (litellm#30447, #31950)"""
from mock import *
class C(Case):
    sticky = True
    def answer(self, conv, k, body):
        name, a = [('shell', sh('grep -rn from_roman . ; date +2026')), ('shell', sh(SOLVE)), ('submit', {})][min(k, 2)]
        a = {key: value.replace('from_roman', '<PERSON>').replace('2026', '<DATE_TIME>') if isinstance(value, str) else value for key, value in a.items()}
        return chat({'role': 'assistant', 'tool_calls': [tcall(name, a)]})
