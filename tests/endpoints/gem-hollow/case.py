"""gemini/tools, Gemini 2.5/3: after a tool result, four responses in a row are STOP with content without parts (or an empty text), only thoughtsTokenCount or no output count at all; if the request is repeated, it is answered. A turn without parts must not be sent back. Expected: resolved, never the model's empty turns. (gemini-cli#28351 "5+ times in a row", python-genai#1289, generative-ai-python#744, gemini-cli#13592)"""
from mock import *
class C(Case):
    api = 'gemini'
    hollow = 0
    def handle(self, raw, headers, path):
        self.stream = 'stream' in path
        return super().handle(raw, headers, path)
    def answer(self, conv, k, body):
        n = len(json.dumps(body)) // 4
        if k == 1 and self.hollow < 4:
            self.hollow += 1
            content, usage = [({'role': 'model'}, {'thoughtsTokenCount': 13, 'totalTokenCount': n + 13}), ({'role': 'model', 'parts': [{'text': ''}]}, {'totalTokenCount': n})][self.hollow == 2]
            r = self.one({'candidates': [{'content': content, 'finishReason': 'STOP', 'index': 0}], 'usageMetadata': {'promptTokenCount': n, **usage}, 'modelVersion': 'mock', 'responseId': f'hYCoaK7mFISV{self.hollow}'})
            r.counts = False
            return r
        part = [gcall('ls', sig='S1'), gcall(SOLVE, sig='S2'), gcall(name='submit', args={}, sig='S3')][min(k, 2)]
        return self.one({'candidates': [{'content': {'role': 'model', 'parts': [part]}, 'finishReason': 'STOP', 'index': 0}], 'usageMetadata': {'promptTokenCount': n, 'candidatesTokenCount': 31, 'thoughtsTokenCount': 90, 'totalTokenCount': n + 121}, 'modelVersion': 'mock'})
    def one(self, x): return sse(x, done=False) if self.stream else js(x)
    def check(self, conv, k, body, h):
        E = lambda m: js({'error': {'code': 400, 'message': m, 'status': 'INVALID_ARGUMENT'}}, 400)
        for i, c in enumerate(body['contents']):
            if not c.get('parts'): return E(f'* GenerateContentRequest.contents[{i}].parts: contents.parts must not be empty.\n')
            for j, p in enumerate(c['parts']):
                if not any(x in p for x in ('text', 'functionCall', 'functionResponse')): return E(f'* GenerateContentRequest.contents[{i}].parts[{j}].data: required oneof field \'data\' must have one initialized field\n')
                if 'functionCall' in p and not p.get('thoughtSignature'): return E('Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly.')
