"""chat/tools, exo and vLLM with GLM: if a call has two arguments, the first value continues with the markup of the second: `ls</arg_value>\\n<arg_key>timeout</arg_key>`, streamed or not. The JSON is valid. Proctor cannot decide this: the model may have written this itself, so the trial is scored. (exo#2187, vllm#55495, llama.cpp#28612)"""
from mock import *
CMDS = ['ls; cat numerals/roman.py', 'if true; then\n' + SOLVE + '\nfi', TEST]
class C(Case):
    def answer(self, conv, k, body):
        got = [flat(m['content']) for m in body['messages'] if m['role'] == 'tool']
        bad = sum('syntax error' in t or 'arg_value' in t or 'required' in t or 'missing' in t or 'rgument' in t for t in got); n = len(got) - bad
        if bad >= 5: return say(body, 'Each of my commands fails with a syntax error, although it has none. I cannot finish the work this way.', use(n_of(body), 26))
        name, args = ('submit', {}) if n >= 3 else ('shell', {'command': CMDS[n], 'timeout': 60 if got else None})
        c = n_of(args) + 14
        if got and name == 'shell' and not GOOD: args = {'command': f"{CMDS[n]}</arg_value>\n<arg_key>timeout</arg_key>\n<arg_value>60"}
        return call(body, name, args, use(n_of(body), c))
