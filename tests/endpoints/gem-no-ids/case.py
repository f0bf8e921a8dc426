"""gemini/tools, a router: the first call comes from the Gemini API with an id, and Vertex, which serves step 2 on, does not support ids of calls and results. (axonhub#874, vercel/ai#15891)"""
from mock import *
class C(Case):
    api = 'gemini'
    def script(self, conv): return [lambda: gem({'functionCall': {'id': 'k7f3a9', 'name': 'shell', 'args': sh('ls')}, 'thoughtSignature': 'GS'}), lambda: gem(gcall('pwd', sig='GS'))]
    def check(self, conv, k, body, h):
        wrong = []
        for i, c in enumerate(body['contents']):
            for j, p in enumerate(c['parts']):
                for key, name in (('functionCall', 'function_call'), ('functionResponse', 'function_response')):
                    if 'id' in p.get(key, {}): wrong.append(f"Invalid JSON payload received. Unknown name \"id\" at 'contents[{i}].parts[{j}].{name}': Cannot find field.")
        if wrong: return js({'error': {'code': 400, 'message': '\n'.join(wrong), 'status': 'INVALID_ARGUMENT'}}, 400)
