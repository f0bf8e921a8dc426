"""gemini/tools, a proxy over several accounts: from step 3 on another account responds, which considers the first one's thought signatures corrupted; a call must have a signature or the value that skips the check. (gemini-cli#13467, sub2api#393, 9router#4136)"""
from mock import *
class C(Case):
    api = 'gemini'
    def answer(self, conv, k, body):
        cmd = ['ls', 'pwd', SOLVE][min(k, 2)]
        sig = ('FIRST' if k < 2 else 'SECOND') + str(k)
        return gem({'text': 'I think.', 'thought': True}, gcall(cmd, sig=sig) if k < 3 else gcall(name='submit', args={}, sig=sig))
    def check(self, conv, k, body, h):
        wrong = lambda text: js({'error': {'code': 400, 'message': text, 'status': 'INVALID_ARGUMENT'}}, 400)
        for c in body['contents']:
            calls = [p for p in c['parts'] if 'functionCall' in p]
            if calls and not calls[0].get('thoughtSignature'): return wrong('Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance.')
            if k >= 2 and any(p.get('thoughtSignature', '').startswith('FIRST') for p in c['parts']): return wrong('Corrupted thought signature.')
