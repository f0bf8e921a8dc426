"""gemini/bash, honest: the filter blocks every prompt of step 2 with blockReason PROHIBITED_CONTENT and no candidates: scored as refused, with the reason."""
from mock import *
class C(Case):
    api = 'gemini'
    scaffold = 'bash'
    def handle(self, raw, headers, path):
        self.stream = 'stream' in path
        return super().handle(raw, headers, path)
    def answer(self, conv, k, body):
        usage = {'promptTokenCount': 400, 'totalTokenCount': 400}
        if any(c['role'] == 'model' for c in body['contents']): return self.one({'promptFeedback': {'blockReason': 'PROHIBITED_CONTENT'}, 'usageMetadata': usage, 'modelVersion': 'mock'})
        text = 'I look.\n\n```bash\nls\n```'
        return self.one({'candidates': [{'content': {'role': 'model', 'parts': [{'text': text}]}, 'finishReason': 'STOP', 'index': 0}], 'usageMetadata': {**usage, 'candidatesTokenCount': 9, 'totalTokenCount': 409}, 'modelVersion': 'mock'})
    def one(self, x): return sse(x, done=False) if self.stream else js(x)
