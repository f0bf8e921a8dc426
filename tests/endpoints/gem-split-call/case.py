"""gemini/tools: a stream splits a call into two parts: the name with empty args, then the args without a name; requests must not contain a functionCall without a name. (vscode-unify-chat-provider#48)"""
from mock import *
class C(Case):
    api = 'gemini'
    def answer(self, conv, k, body):
        name, args = [('shell', sh('ls')), ('shell', sh(SOLVE)), ('submit', {})][min(k, 2)]
        part = lambda p, fin=None: {'candidates': [{'content': {'role': 'model', 'parts': [p]}, **({'finishReason': fin} if fin else {}), 'index': 0}], 'modelVersion': 'mock'}
        parts = [part({'functionCall': {'name': name, 'args': {}}, 'thoughtSignature': 'GS'})]
        if args: parts.append(part({'functionCall': {'args': args}}))
        end = {**part({'text': ''}, 'STOP'), 'usageMetadata': {'promptTokenCount': 100, 'candidatesTokenCount': 16, 'totalTokenCount': 116}}
        return sse(*parts, end, done=False)
    def check(self, conv, k, body, h):
        for i, c in enumerate(body['contents']):
            for j, p in enumerate(c['parts']):
                if 'functionCall' in p and not p['functionCall'].get('name'): return js({'error': {'code': 400, 'message': f'* GenerateContentRequest.contents[{i}].parts[{j}].function_call.name: Name cannot be empty.\n', 'status': 'INVALID_ARGUMENT'}}, 400)
