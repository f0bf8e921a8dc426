"""gemini/tools behind a proxy that drops ?alt=sse: the stream is a JSON array. (nyro#182, nous#26)"""
from mock import *
class C(Case):
    api = 'gemini'
    budget = 'steps = 12\nwall_seconds = 60'
    def answer(self, conv, k, body):
        part = [gcall('ls', sig='G1'), gcall(SOLVE, sig='G2'), gcall(name='submit', args={}, sig='G3')][min(k, 2)]
        u = {'promptTokenCount': 100, 'candidatesTokenCount': 20, 'totalTokenCount': 120}
        arr = [{'candidates': [{'content': {'role': 'model', 'parts': [{'text': 'I go on. '}]}, 'index': 0}], 'modelVersion': 'mock'}, {'candidates': [{'content': {'role': 'model', 'parts': [part]}, 'index': 0}], 'modelVersion': 'mock'}, {'candidates': [{'content': {'role': 'model', 'parts': [{'text': ''}]}, 'finishReason': 'STOP', 'index': 0}], 'usageMetadata': u, 'modelVersion': 'mock'}]
        b = json.dumps(arr, indent=2).encode(); h = len(b) // 2
        return R([b[:h], 0.1, b[h:]], 200, 'application/json')
