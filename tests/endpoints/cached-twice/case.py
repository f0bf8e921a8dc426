"""messages/tools, grok2api, copilot-api and other proxies before OpenAI's format: `input_tokens` is the whole prompt, and `cache_read_input_tokens` counts its cached part once more. The trial may use 48,000 input tokens; its eight requests have 43,000, which the proxy counts as 79,000: a fault, not the model's limit. (grok2api#748, copilot-api#88, pi-commandcode-provider#30)"""
from mock import *
PROSE = "for i in $(seq 1 130); do echo \"chapter $i: the parser reads each numeral from left to right, adds the value of every letter, and rejects what the writer would never write\"; done"
class C(Case):
    api = 'messages'
    budget = 'steps = 12\ninput_tokens = 48000\nwall_seconds = 200'
    timeout = 220
    seen = 0
    def answer(self, conv, k, body):
        step = sum(m['role'] == 'assistant' for m in body['messages'])
        b = tuse([PROSE, 'ls; cat numerals/roman.py', 'cat numerals/__init__.py', 'head -5 tests/*.py', 'cat numerals/tally.py', '/venv/bin/python -m pytest -q | tail -2', SOLVE][min(step, 6)], id=f'toolu_{step}') if step < 7 else tuse(name='submit', input={}, id='toolu_end')
        n = int(len(json.dumps(body)) / 4.4)
        u = {'input_tokens': n, 'cache_creation_input_tokens': 0, 'cache_read_input_tokens': min(self.seen, n) // 128 * 128, 'output_tokens': 95}
        self.seen = n
        if body.get('stream'): return msg(b, usage0={**u, 'output_tokens': 1}, usage1=u)
        return js({'id': f'msg_{step}', 'type': 'message', 'role': 'assistant', 'model': 'mock', 'content': [b], 'stop_reason': 'tool_use', 'stop_sequence': None, 'usage': u})
    def check(self, conv, k, body, h):
        ms = body['messages']
        for m, after in zip(ms, [*ms[1:], {'content': []}]):
            if m['role'] != 'assistant': continue
            ids = [b['id'] for b in m['content'] if b['type'] == 'tool_use']
            if ids != [b.get('tool_use_id') for b in after['content'] if b['type'] == 'tool_result']: return merr(400, f'`tool_use` ids were found without `tool_result` blocks immediately after: {ids}.')
