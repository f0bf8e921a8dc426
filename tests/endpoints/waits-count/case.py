"""messages/bash, Anthropic's limit of input tokens per minute: two requests get 429 with `retry-after: 4`. The model needs 13 s for its seven turns, the wall limit is 20 s, and the two waits take 8 s: resolved. (OpenHands#9259, OpenManus#746, GhidrAssist#60, CraftBot#145)"""
from mock import *
ASK = '```bash\n%s\n```'
TURNS = ['I look at the package.\n\n' + ASK % 'ls; cat numerals/roman.py', 'I read how it is exported.\n\n' + ASK % 'cat numerals/__init__.py', 'I look at the other module.\n\n' + ASK % 'cat numerals/tally.py', 'I look at the tests.\n\n' + ASK % 'head -5 tests/*.py', 'I see whether they pass now.\n\n' + ASK % '/venv/bin/python -m pytest -q | tail -2', 'I write the function and export it.\n\n' + ASK % SOLVE, 'Done.\n\n' + ASK % 'proctor-submit']
class C(Case):
    api = 'messages'
    scaffold = 'bash'
    budget = 'steps = 12\nwall_seconds = 20'
    timeout = 100
    def __init__(self):
        super().__init__(); self.until = {}
    def answer(self, conv, k, body):
        step = sum(m['role'] == 'assistant' for m in body['messages'])
        text = TURNS[min(step, 6)]
        n = len(json.dumps(body)) // 4
        if not body.get('stream'): return R([1.9, json.dumps({'id': f'msg_{step}', 'type': 'message', 'role': 'assistant', 'model': 'mock', 'content': [{'type': 'text', 'text': text}], 'stop_reason': 'end_turn', 'stop_sequence': None, 'usage': {'input_tokens': n, 'output_tokens': 60}}).encode()], ctype='application/json')
        ev = blocks_events([{'type': 'text', 'text': text}], 'end_turn', {'input_tokens': n, 'output_tokens': 1}, {'output_tokens': 60})
        one = lambda e: f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode()
        delta = lambda t: one({'type': 'content_block_delta', 'index': 0, 'delta': {'type': 'text_delta', 'text': t}})
        pieces, cuts = [one(ev[0]), one(ev[1])], [text[i:i + len(text) // 6 + 1] for i in range(0, len(text), len(text) // 6 + 1)]
        for t in cuts: pieces += [1.9 / len(cuts), delta(t)]
        return R(pieces + [one(e) for e in ev[3:]])
    def check(self, conv, k, body, h):
        step = sum(m['role'] == 'assistant' for m in body['messages'])
        if step in (1, 3):
            now = time.time()
            left = self.until.setdefault(step, now + 4) - now
            if left > 0.5: return merr(429, 'This request would exceed the rate limit for your organization (0dccdde6-f924-4f1b-bb3b-92ef846e0a5b) of 20,000 input tokens per minute. For details, refer to: https://docs.anthropic.com/en/api/rate-limits.', 'rate_limit_error', {'retry-after': str(int(left + 0.99))})
