"""messages/bash: stop_reason pause_turn four times in a row with only text (a gateway's own server tool loop): the turn must be continued with unchanged thinking, and must never count as the model's end. (pydantic-ai#2600, dust#28390)"""
from mock import *
class C(Case):
    api = 'messages'
    scaffold = 'bash'
    model = 'extra_body = { thinking = { type = "enabled", budget_tokens = 2000 } }'
    def answer(self, conv, k, body):
        x = lambda t: {'type': 'text', 'text': t}
        if k < 4: return msg({'type': 'thinking', 'thinking': 'hm', 'signature': f'S{k}'}, x(f'I search the documentation, part {k}.'), stop='pause_turn')
        return [lambda: msg(x('```bash\n' + SOLVE + '\n```'), stop='end_turn'), lambda: msg(x('```bash\nproctor-submit\n```'), stop='end_turn')][min(k - 4, 1)]()
    def check(self, conv, k, body, h):
        ms = body['messages']
        for i, m in enumerate(ms):
            if i and ms[i-1]['role'] == m['role']: pass
            if m['role'] == 'assistant' and not isinstance(m['content'], str):
                for b in m['content']:
                    if b['type'] == 'thinking' and (b['thinking'] != 'hm' or not b['signature'].startswith('S')): return merr(400, 'thinking blocks cannot be modified')
        print('   step', k + 1, 'ends with', json.dumps(ms[-1])[:160], 'assistant before:', json.dumps(ms[-2]['content'])[:100] if k else '')
