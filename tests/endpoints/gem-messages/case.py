"""gemini endpoint, Messages client: a signature on the first of two parallel calls; ids; all results in one content. (Antigravity-Manager#938, #3202)"""
from mock import *
class C(Case):
    api = 'gemini'
    scaffold = '../cli/messages.toml'
    def handle(self, raw, headers, path):
        self.path = path; return Case.handle(self, raw, headers, path)
    def answer(self, conv, k, body):
        f = lambda c, i, n='shell': {'functionCall': {'id': i, 'name': n, 'args': {'command': c} if c else {}}}
        parts = [[{'text': 'Plan', 'thought': True}, {'text': 'I look.'}, {**f('ls', 'fa'), 'thoughtSignature': 'S1'}, f('pwd', 'fb')], [{**f(SOLVE, 'fc'), 'thoughtSignature': 'S2'}], [{**f('', 'fd', 'submit'), 'thoughtSignature': 'S3'}]][min(k, 2)]
        d = {'candidates': [{'content': {'role': 'model', 'parts': parts}, 'finishReason': 'STOP', 'index': 0}], 'modelVersion': 'mock', 'usageMetadata': {'promptTokenCount': 100, 'candidatesTokenCount': 20, 'totalTokenCount': 120}}
        return sse(d, done=False) if 'stream' in self.path else js(d)
    def check(self, conv, k, body, h):
        E = lambda m: js({'error': {'code': 400, 'message': m, 'status': 'INVALID_ARGUMENT'}}, 400)
        cs = body['contents']
        for i, c in enumerate(cs):
            fc = [p for p in c['parts'] if 'functionCall' in p]
            if fc:
                want = {'ls': 'S1', 'pwd': None}.get(fc[0]['functionCall']['args'].get('command'), 'S2')
                if fc[0].get('thoughtSignature') is None: return E('Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly. Additional data, function call `default_api:shell` , position %d.' % i)
                if fc[0]['thoughtSignature'] != want or any(p.get('thoughtSignature') for p in fc[1:]): return E('Corrupted thought signature.')
                fr = [p for p in cs[i+1]['parts'] if 'functionResponse' in p]
                if [p['functionCall']['name'] for p in fc] != [p['functionResponse']['name'] for p in fr]: return E('Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.')
