"""gemini/bash, CLIProxyAPI: two empty chunks with finishReason STOP (parts []), then the text without one, then STOP twice more. (kelivo#1003, ailoy#434)"""
from mock import *
class C(Case):
    api = 'gemini'
    scaffold = 'bash'
    def answer(self, conv, k, body):
        text = ['I look.\n\n```bash\nls\n```', '```bash\n' + SOLVE + '\n```', '```bash\nproctor-submit\n```'][min(k, 2)]
        c = lambda parts, fin=None, **more: {'candidates': [{'content': {'role': 'model', 'parts': parts}, **({'finishReason': fin} if fin else {}), 'index': 0}], 'modelVersion': 'mock', **more}
        use = {'usageMetadata': {'promptTokenCount': 100, 'candidatesTokenCount': 40, 'totalTokenCount': 140}}
        return sse(c([], 'STOP'), c([], 'STOP'), *[c([{'text': text[i:i + 20]}]) for i in range(0, len(text), 20)], c([], 'STOP'), c([], 'STOP', **use), done=False)
