"""gemini/bash, a harmless prompt gets status 200, no candidates and blockReason OTHER, three times at step 2 and once at step 3, and is then answered: resolved. (python-genai#774, llm-subtrans#292, llm-gemini#80)"""
from mock import *
class C(Case):
    api = 'gemini'
    scaffold = 'bash'
    blocked = {1: 3, 2: 1}
    def handle(self, raw, headers, path):
        self.stream = 'stream' in path
        return super().handle(raw, headers, path)
    def answer(self, conv, k, body):
        n = len(json.dumps(body)) // 4
        k = sum(c['role'] == 'model' for c in body['contents'])
        if self.blocked.get(k):
            self.blocked = {**self.blocked, k: self.blocked[k] - 1}
            return self.one({'promptFeedback': {'blockReason': 'OTHER'}, 'usageMetadata': {'promptTokenCount': n, 'totalTokenCount': n, 'promptTokensDetails': [{'modality': 'TEXT', 'tokenCount': n}]}, 'modelVersion': 'mock', 'responseId': f'r{n}'})
        text = ['I look.', 'I write it.', 'Done.'][min(k, 2)] + '\n\n```bash\n' + ['ls', SOLVE, 'proctor-submit'][min(k, 2)] + '\n```'
        return self.one({'candidates': [{'content': {'role': 'model', 'parts': [{'text': text}]}, 'finishReason': 'STOP', 'index': 0}], 'usageMetadata': {'promptTokenCount': n, 'candidatesTokenCount': len(text) // 4, 'totalTokenCount': n + len(text) // 4}, 'modelVersion': 'mock'})
    def one(self, x): return sse(x, done=False) if self.stream else js(x)
    def check(self, conv, k, body, h):
        roles = [c['role'] for c in body['contents']]
        if any(not c.get('parts') for c in body['contents']) or any(a == b for a, b in zip(roles, roles[1:])): return js({'error': {'code': 400, 'message': 'Please ensure that multiturn requests alternate between user and model.', 'status': 'INVALID_ARGUMENT'}}, 400)
