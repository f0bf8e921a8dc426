"""gemini/tools, the translation of stop-first: STOP twice before the call, the call without a finishReason, then STOP and an empty text. (kelivo#1003, envoy ai-gateway#2399)"""
from mock import *
class C(Case):
    api = 'gemini'
    def answer(self, conv, k, body):
        part = [gcall('ls', sig='S0'), gcall(SOLVE, sig='S1'), gcall(name='submit', args={}, sig='S2')][min(k, 2)]
        c = lambda parts, fin=None, **more: {'candidates': [{'content': {'role': 'model', 'parts': parts}, **({'finishReason': fin} if fin else {}), 'index': 0}], 'modelVersion': 'mock', **more}
        use = {'usageMetadata': {'promptTokenCount': 100, 'candidatesTokenCount': 40, 'totalTokenCount': 140}}
        return sse(c([], 'STOP'), c([], 'STOP'), c([part]), c([{'text': ''}], 'STOP', **use), done=False)
    def check(self, conv, k, body, h):
        signs = [p.get('thoughtSignature') for m in body['contents'] if m['role'] == 'model' for p in m['parts'] if 'functionCall' in p]
        if signs != [f'S{i}' for i in range(len(signs))]: return js({'error': {'code': 400, 'message': f'Function call is missing a thought_signature in functionCall parts. {signs}', 'status': 'INVALID_ARGUMENT'}}, 400)
