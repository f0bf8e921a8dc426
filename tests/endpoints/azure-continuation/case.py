"""responses/tools, Azure AI Foundry: a request may contain the encrypted reasoning of only one earlier response, otherwise: 400 `Conflicting authenticated continuation identities` from step 3 on, whatever the ids. Accepted: only the newest reasoning item, or none. Expected: resolved. (hermes-agent#106718, #101243, #105369, corsair#438)"""
from mock import *
class C(Case):
    api = 'responses'
    def answer(self, conv, k, body):
        n = sum(i.get('type') == 'function_call' for i in body['input'])
        call = [fcall('ls', id='call_a'), fcall('cat numerals/roman.py', id='call_b'), fcall(SOLVE, id='call_c'), fcall(name='submit', args={}, id='call_d')][min(n, 3)]
        events = resp_events([rs(f'0c3876fcd4da19ef{n}', enc=f'gAAAAABp{n}'), call])
        size = len(json.dumps(body)) // 4
        events[-1]['response']['usage'] = {'input_tokens': size, 'output_tokens': 171, 'output_tokens_details': {'reasoning_tokens': 128}, 'total_tokens': size + 171}
        return mev(*events) if body.get('stream') else js(events[-1]['response'])
    def check(self, conv, k, body, h):
        sealed = [i for i in body['input'] if i.get('type') == 'reasoning' and i.get('encrypted_content')]
        if len(sealed) > 1: return err(400, 'Conflicting authenticated continuation identities', param='input', code='invalid_value')
        calls = [i['call_id'] for i in body['input'] if i.get('type') == 'function_call']
        results = [i['call_id'] for i in body['input'] if i.get('type') == 'function_call_output']
        if calls != results: return err(400, f'No tool output found for function call {calls}.', param='input')
