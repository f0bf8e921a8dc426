"""responses/tools, LiteLLM's router: Gemini's turns have the thought signature in item and call ids (hundreds of characters); then the router falls back to OpenAI, which allows 64 characters. (litellm#41534, #18160, agentgateway#3342)"""
from mock import *
class C(Case):
    api = 'responses'
    def answer(self, conv, k, body):
        name, a = [('shell', sh('ls')), ('shell', sh('pwd')), ('shell', sh(SOLVE)), ('submit', {})][min(k, 3)]
        item = fcall(name=name, args=a)
        if k < 2: item = {**item, 'id': f'fc_call_{k}__thought__' + 'AbC/' * 220, 'call_id': f'call_{k}__thought__' + 'AbC/' * 220}
        return resp(item)
    def check(self, conv, k, body, h):
        if k < 2: return None
        for i, item in enumerate(body['input']):
            for field in ('id', 'call_id'):
                value = item.get(field)
                if value and len(value) > 64:
                    return err(400, f"Invalid 'input[{i}].{field}': string too long. Expected a string with maximum length 64, but got a string with length {len(value)} instead.", param=f'input[{i}].{field}', code='string_above_max_length')
        calls = [i['call_id'] for i in body['input'] if i.get('type') == 'function_call']
        results = [i['call_id'] for i in body['input'] if i.get('type') == 'function_call_output']
        if calls != results or len(set(calls)) != len(calls): return err(400, f'No tool call found for function call output with call_id {results}.')
