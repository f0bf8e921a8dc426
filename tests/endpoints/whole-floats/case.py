"""gemini/tools, every integer of a call arrives as a double (timeout 60.0, view_range [1.0, 14.0], insert_line 1.0), streamed or not. If the tools reject three calls in a row, the model gives up: resolved. (langchain-google#1109, codex#33452, opencodex#1611, mlx-lm#1417, maki#142)"""
from mock import *
import re
class C(Case):
    api = 'gemini'
    def handle(self, raw, headers, path):
        self.stream = 'stream' in path
        return super().handle(raw, headers, path)
    def answer(self, conv, k, body):
        cs, n = body['contents'], len(json.dumps(body)) // 4
        say = lambda *parts: self.one({'candidates': [{'content': {'role': 'model', 'parts': list(parts)}, 'finishReason': 'STOP', 'index': 0}], 'usageMetadata': {'promptTokenCount': n, 'candidatesTokenCount': 31, 'thoughtsTokenCount': 40, 'totalTokenCount': n + 71}, 'modelVersion': 'mock'})
        results = [json.dumps(p['functionResponse']['response']) for c in cs for p in c['parts'] if 'functionResponse' in p]
        bad = [bool(re.search(r'(?i)invalid|expected|must be|malformed|wrong type|not an integer|not run|(?<!Value)error', r)) for r in results]
        edit = lambda **a: {'command': None, 'path': 'numerals/roman.py', 'view_range': None, 'file_text': None, 'old_str': None, 'new_str': None, 'insert_line': None, 'insert_text': None, **a}
        plan = [gcall(args={'command': 'ls', 'timeout': 60.0}), gcall(name='edit', args=edit(command='view', view_range=[1.0, 14.0])), gcall(name='edit', args=edit(command='insert', insert_line=1.0, insert_text='\n# Read and write.\n')), gcall(args={'command': SOLVE, 'timeout': 30.0}), gcall(name='submit', args={})]
        if bad[-3:] == [True] * 3: return say({'text': 'The tools reject my arguments each time, so I cannot go on. I stop here.', 'thoughtSignature': f'S{len(cs)}'})
        return say({**plan[min(bad.count(False), 4)], 'thoughtSignature': f'S{len(cs)}'})
    def one(self, x): return sse(x, done=False) if self.stream else js(x)
    def check(self, conv, k, body, h):
        E = lambda m: js({'error': {'code': 400, 'message': m, 'status': 'INVALID_ARGUMENT'}}, 400)
        for i, c in enumerate(body['contents']):
            if not c.get('parts'): return E(f'* GenerateContentRequest.contents[{i}].parts: contents.parts must not be empty.\n')
            calls = [p for p in c['parts'] if 'functionCall' in p]
            if any(p.get('thoughtSignature') != f'S{i}' for p in calls[:1]): return E('Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly.')
            after = body['contents'][i + 1]['parts'] if i + 1 < len(body['contents']) else []
            if calls and sum('functionResponse' in p for p in after) != len(calls): return E('Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.')
