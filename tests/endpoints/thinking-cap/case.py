"""gemini/bash: thinking uses up a gateway's own small maxOutputTokens if the request sets no limit: MAX_TOKENS, content without parts, thoughtsTokenCount 2,999; with a limit it responds normally. (adk-python#1357, helm#3804)"""
from mock import *
class C(Case):
    api = 'gemini'
    scaffold = 'bash'
    def answer(self, conv, k, body):
        limit = (body.get('generationConfig') or {}).get('maxOutputTokens')
        if k >= 1 and (not limit or limit < 4000):
            r = sse({'candidates': [{'content': {'role': 'model'}, 'finishReason': 'MAX_TOKENS', 'index': 0}], 'modelVersion': 'mock', 'usageMetadata': {'promptTokenCount': 400, 'thoughtsTokenCount': 2999, 'totalTokenCount': 3399}}, done=False)
            r.counts = False; return r
        return [gem({'text': '```bash\nls\n```'}), gem({'text': '```bash\n' + SOLVE + '\n```'}), gem({'text': '```bash\nproctor-submit\n```'})][min(k, 2)]
