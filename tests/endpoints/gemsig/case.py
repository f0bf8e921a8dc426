"""gemini/tools. Parallel calls: only the first call has a signature, and an empty last text part has another; all must be sent back in place, and all results in one content. (rust-genai#299, adk-go#442)"""
from mock import *
class C(Case):
    api = 'gemini'
    def script(self, conv):
        def g(*chunks):
            ev = [{'candidates': [{'content': {'role': 'model', 'parts': p}, 'index': 0}], 'modelVersion': 'mock'} for p in chunks]
            ev[-1]['candidates'][0]['finishReason'] = 'STOP'; ev[-1]['usageMetadata'] = {'promptTokenCount': 100, 'candidatesTokenCount': 20, 'totalTokenCount': 120}
            return sse(*ev, done=False)
        f = lambda c, i: {'functionCall': {'id': i, 'name': 'shell', 'args': sh(c)}}
        return [lambda: g([{'text': 'Plan', 'thought': True}], [{'text': 'I '}], [{'text': 'look.'}], [{**f('ls', 'fa'), 'thoughtSignature': 'S1'}], [f('pwd', 'fb')], [{'text': '', 'thoughtSignature': 'S2'}]),
                lambda: g([{'text': 'Now I think'}], [{'text': '', 'thoughtSignature': 'S3'}]),
                lambda: g([{**f('true', 'fc'), 'thoughtSignature': 'S4'}])]
    def check(self, conv, k, body, h):
        E = lambda m: js({'error': {'code': 400, 'message': m, 'status': 'INVALID_ARGUMENT'}}, 400)
        cs = body['contents']; where = {}
        for i, c in enumerate(cs):
            fc = [p for p in c['parts'] if 'functionCall' in p]
            for p in c['parts']:
                s = p.get('thoughtSignature')
                if s: where[s] = p['functionCall']['args'].get('command') if 'functionCall' in p else 'text'
                if not any(x in p for x in ('text', 'functionCall', 'functionResponse')): return E(f'contents[{i}].parts: required oneof field data must have one initialized field')
            if fc:
                if i == 0 or cs[i-1]['role'] == 'model': return E('Please ensure that function call turn comes immediately after a user turn or after a function response turn.')
                if not fc[0].get('thoughtSignature'): return E(f"Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:shell` , position {i}.")
                fr = [p for p in cs[i+1]['parts'] if 'functionResponse' in p] if i + 1 < len(cs) else []
                if len(fr) != len(fc): return E('Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.')
                for a, b in zip(fc, fr):
                    if a['functionCall'].get('id') != b['functionResponse'].get('id'): print('   ids differ', a['functionCall'].get('id'), b['functionResponse'].get('id'))
                    if a['functionCall']['name'] != b['functionResponse']['name']: return E('function response name mismatch')
                if len(fc) == 2 and fc[1].get('thoughtSignature'): return E('Thought signature is not valid.')
        for s, w in (('S1', 'ls'), ('S4', 'true')):
            if s in where and where[s] != w: return E('Corrupted thought signature.')
        for s in ('S2', 'S3'):
            if s in where and where[s] != 'text': return E('Corrupted thought signature.')
        print('   step', k + 1, 'signatures back:', where, 'roles', [c['role'] for c in cs])
