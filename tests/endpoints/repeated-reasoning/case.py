"""responses/tools, OpenAI and gateways before it: two consecutive responses begin with the same reasoning item (same id, longer encrypted content), each before its own call; from step 3 on the API rejects an input with one id twice. It accepts items without ids, or the item once. Expected: resolved. (hermes-agent#7939, nanobot#3633, #3961, OpenRouter ai-sdk-provider#254, vercel/ai#7883, vscode#321977)"""
from mock import *
ID = 'rs_0ad20f1f8629dc53016924443203408193abb5b3d0b4301e26'
class C(Case):
    api = 'responses'
    def answer(self, conv, k, body):
        n = sum(i.get('type') == 'function_call' for i in body['input'])
        call = [fcall('ls', id='call_a'), fcall('cat numerals/roman.py', id='call_b'), fcall(SOLVE, id='call_c'), fcall(name='submit', args={}, id='call_d')][min(n, 3)]
        events = resp_events([{'type': 'reasoning', 'id': ID if n < 2 else ID + str(n), 'summary': [], 'encrypted_content': 'ENC' * (n + 1)}, call])
        return mev(*events) if body.get('stream') else js(events[-1]['response'])
    def check(self, conv, k, body, h):
        seen = set()
        for item in body['input']:
            if item.get('id') in seen: return err(400, f"Duplicate item found with id {item['id']}. Remove duplicate items from your input and try again.", param='input', code=None)
            if item.get('id'): seen.add(item['id'])
        calls = [i['call_id'] for i in body['input'] if i.get('type') == 'function_call']
        results = [i['call_id'] for i in body['input'] if i.get('type') == 'function_call_output']
        if calls != results: return err(400, f'No tool output found for function call {calls}.', param='input')
