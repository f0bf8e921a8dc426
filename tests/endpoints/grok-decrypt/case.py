"""responses/tools, xAI: from A's step 3 on, the service cannot decrypt the blobs of steps 1 and 2 (snapshot rotated); error is a string without a code. Without the blobs it accepts the request. (openclaw#97925, grok2api#688)"""
from mock import *
class C(Case):
    api = 'responses'
    tasks = 'AB'
    timeout = 90
    def script(self, conv):
        if conv == 'B': return [lambda: resp(fcall())] * 6
        return [lambda: R([0.8] + resp(rs('1', ['a']), fcall()).pieces), lambda: R([0.8] + resp(rs('2', []), fcall('pwd')).pieces), lambda: resp(rs('9', [], 'NEW'), fcall('id'))]
    def check(self, conv, k, body, h):
        if conv != 'A': return
        E = lambda m: js({'code': 'Client specified an invalid argument', 'error': m}, 400)
        for i in body['input']:
            if i.get('type') == 'reasoning':
                if i.get('encrypted_content') and 'summary' not in i: return E('Could not decode the compaction blob. Ensure it is unmodified from the compact response.')
                if not i.get('encrypted_content') and not i.get('summary') and not i.get('content'): return E('Invalid request content: Each message must have at least one content element.')
                if k >= 2 and (i.get('encrypted_content') or '').startswith('ENC'): return E('Could not decrypt the provided encrypted_content. Ensure the value is the unmodified encrypted_content from a previous response.')
