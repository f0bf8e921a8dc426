"""responses/tools, OpenAI (GPT-5): twice at step 2 a completed response is only a reasoning item, without message or call. The API rejects this item if it is sent back with its id but without a following item of the same turn. It also rejects a call whose reasoning is missing. Expected: resolved: repeat the request, or send the item without its id, or omit it. (openai-python#2546, openai-agents-python#1517, codex#1498, continue#8933, vercel/ai#7099, openai-node#1567, openai-responses-starter-app#38)"""
from mock import *
class C(Case):
    api = 'responses'
    def answer(self, conv, k, body):
        n = str(k + 1)
        items = [rs(n, enc='ENC-')] + [[fcall('ls', id='call_a')], [], [], [fcall(SOLVE, id='call_b')], [fcall(name='submit', args={}, id='call_c')]][min(k, 4)]
        events = resp_events(items)
        events[-1]['response']['usage'] = {'input_tokens': len(json.dumps(body)) // 4, 'output_tokens': 612, 'output_tokens_details': {'reasoning_tokens': 576}, 'total_tokens': len(json.dumps(body)) // 4 + 612}
        if not items[1:]: events[-1]['response']['usage'].update(output_tokens=583, total_tokens=len(json.dumps(body)) // 4 + 583)
        if not body.get('stream'): return js(events[-1]['response'])
        return mev(*events)
    def check(self, conv, k, body, h):
        items = body['input']
        for i, item in enumerate(items):
            after = items[i + 1] if i + 1 < len(items) else {}
            if item.get('type') == 'reasoning' and item.get('id') and not (after.get('type') in ('function_call', 'reasoning') or after.get('role') == 'assistant'):
                return err(400, f"Item '{item['id']}' of type 'reasoning' was provided without its required following item.", param='input', code=None)
            if item.get('type') == 'function_call' and item.get('id') and (i == 0 or items[i - 1].get('type') != 'reasoning'):
                return err(400, f"Item '{item['id']}' of type 'function_call' was provided without its required 'reasoning' item.", param='input', code=None)
