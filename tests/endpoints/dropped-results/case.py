"""chat/tools, oMLX: the template loses every `tool` message, so the model repeats its first call for ever; prompt_tokens show it: they never grow with the results of 20 KB. (omlx#788, #789)"""
from mock import *
class C(Case):
    budget = 'steps = 8\nwall_seconds = 120'
    def answer(self, conv, k, body):
        seen = [m for m in body['messages'] if m['role'] in ('system', 'user')]
        prompt = len(json.dumps([seen, body.get('tools')])) // 4
        call = tcall(args=sh('cat numerals/roman.py; seq 1 5000'))
        return chat({'role': 'assistant', 'tool_calls': [call]}, usage={'prompt_tokens': prompt, 'completion_tokens': 30, 'total_tokens': prompt + 30})
