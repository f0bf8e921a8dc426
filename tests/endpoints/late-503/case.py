"""gemini/tools, Gemini under load: at step 2, three streams think for 3,100 tokens and then end with a raw 503 object without `data:`; without streaming, the server returns 503 once; then it responds. The trial may use 8,000 output tokens, of which the model's five turns need 1,700: resolved. (vercel/ai#5217, gemini-cli#7851, oh-my-pi#8563)"""
from mock import *
class C(Case):
    api = 'gemini'
    budget = 'steps = 12\noutput_tokens = 8000\nwall_seconds = 300'
    timeout = 320
    left = 4
    def handle(self, raw, headers, path):
        self.stream = 'stream' in path
        return super().handle(raw, headers, path)
    def answer(self, conv, k, body):
        step = sum(c['role'] == 'model' for c in body['contents'])
        n = len(json.dumps(body)) // 4
        one = lambda parts, thoughts, out, fin=None: {'candidates': [{'content': {'role': 'model', 'parts': parts}, 'index': 0, **({'finishReason': fin} if fin else {})}], 'usageMetadata': {'promptTokenCount': n, 'thoughtsTokenCount': thoughts, **({'candidatesTokenCount': out} if out else {}), 'totalTokenCount': n + thoughts + out}, 'modelVersion': 'mock', 'responseId': f'r{self.seq}'}
        if step == 1 and self.left:
            self.left -= 1
            error = {'error': {'code': 503, 'message': 'The model is overloaded. Please try again later.', 'status': 'UNAVAILABLE'}}
            if not self.stream: r = js(error, 503)
            else:
                thought = lambda t: [{'text': t, 'thought': True}]
                r = R([data(one(thought('**Planning the function**\n\nThe numerals are greedy, so I read them greedily and compare with `to_roman`.\n\n'), 1400, 0)), 0.2, data(one(thought('**Checking the edge cases**\n\nAn empty text, lower case and `IIII` must be rejected.\n\n'), 3100, 0)), 0.2, json.dumps(error, indent=2).encode() + b'\n'])
            r.counts = False
            return r
        part = [gcall('ls; cat numerals/roman.py', sig='S0'), gcall(SOLVE, sig='S1'), gcall('cat numerals/__init__.py', sig='S2'), gcall('/venv/bin/python -m pytest -q | tail -2', sig='S3'), gcall(name='submit', args={}, sig='S4')][min(step, 4)]
        whole = one([part], 220, 120, 'STOP')
        return sse(whole, done=False) if self.stream else js(whole)
    def check(self, conv, k, body, h):
        for c in body['contents']:
            for p in c['parts']:
                if 'functionCall' in p and not p.get('thoughtSignature'): return js({'error': {'code': 400, 'message': 'Function call is missing a thought_signature in functionCall parts.', 'status': 'INVALID_ARGUMENT'}}, 400)
        if body['contents'][-1]['role'] != 'user': return js({'error': {'code': 400, 'message': 'Please ensure that the last content is of role user.', 'status': 'INVALID_ARGUMENT'}}, 400)
