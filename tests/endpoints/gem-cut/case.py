"""gemini/bash: a stream ends without an error or a finishReason inside a command (three times), then a stream has only thoughts and no finishReason (twice). The partial command must not run. (gemini-cli#8073, CLIProxyAPI#5226)"""
from mock import *
class C(Case):
    api = 'gemini'
    scaffold = 'bash'
    n = 0
    def answer(self, conv, k, body):
        t = lambda s: gem({'text': s})
        if k == 1 and self.n < 5:
            self.n += 1
            p = [{'text': 'I make it clean.\n\n```bash\nrm -rf numerals'}] if self.n <= 3 else [{'text': 'thinking about it', 'thought': True}]
            r = sse({'candidates': [{'content': {'role': 'model', 'parts': p}, 'index': 0}], 'modelVersion': 'mock', 'usageMetadata': {'promptTokenCount': 100, 'thoughtsTokenCount': 20, 'totalTokenCount': 120}}, done=False)
            r.counts = False; return r
        return [t('```bash\nls\n```'), t('```bash\n' + SOLVE + '\n```'), t('```bash\nproctor-submit\n```')][min(k, 2)]
    def check(self, conv, k, body, h):
        for i, c in enumerate(body['contents']):
            if not c.get('parts') or all('text' in p and not p['text'] and not p.get('thoughtSignature') for p in c['parts']): return js({'error': {'code': 400, 'message': f'Unable to submit request because it must include at least one parts field (contents[{i}])', 'status': 'INVALID_ARGUMENT'}}, 400)
        if k == 1: print('   rm seen in history:', 'rm -rf' in json.dumps(body), 'contents', len(body['contents']))
