"""responses/tools, a strict endpoint: it rejects `status`, which it sends itself, as an unknown parameter of input items. (pi#7263, jcode#1028, codex-proxy-rs#194)"""
from mock import *
class C(Case):
    api = 'responses'
    def script(self, conv): return [lambda: resp(rs('1'), {'type': 'message', 'id': 'msg_1', 'role': 'assistant', 'status': 'completed', 'content': [{'type': 'output_text', 'text': 'I look.', 'annotations': []}]}, fcall('ls'))]
    def check(self, conv, k, body, h):
        for i, item in enumerate(body['input']):
            if 'status' in item: return js({'error': {'code': 'unknown_parameter', 'message': f"Unknown parameter: 'input[{i}].status'.", 'param': f'input[{i}].status', 'type': 'invalid_request_error'}}, 400)
