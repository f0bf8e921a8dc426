"""responses/tools, OpenRouter's Responses address before a backend that cannot read encrypted reasoning (Bedrock's mantle reports its validation errors in the same way): as soon as the input has two reasoning items with `encrypted_content` (step 3 on), 400 with code `invalid_prompt` and `Backend request failed with status 400`, every time; without the encrypted content the same request is answered. OpenAI uses this code for its filter, but here nothing was filtered: resolved without the reasoning (or a fault); never scored as the model's refusal. (oh-my-pi#9041 "invalid_prompt: Backend request failed with status 400 ... tends to occur after a session has accumulated reasoning and tool-call history", opencode#49099 "Bedrock Mantle reports request validation failures under `invalid_prompt` ... so schema errors surfaced to users as content refusals", opencode#43187, tracker#114, hermes-agent#75561)"""
from mock import *
class C(Case):
    api = 'responses'
    budget = 'steps = 12\nwall_seconds = 200'
    timeout = 220
    def answer(self, conv, k, body):
        n = sum(i.get('type') == 'function_call' for i in body['input'])
        call = [fcall('ls; cat numerals/roman.py', id='call_a'), fcall('cat numerals/__init__.py tests/*.py', id='call_b'), fcall(SOLVE, id='call_c'), fcall('/venv/bin/python -m pytest -q | tail -2', id='call_d'), fcall(name='submit', args={}, id='call_e')][min(n, 4)]
        events = resp_events([rs(f'tmp_{n}', enc=f'gAAAAABq{n}'), call])
        size = len(json.dumps(body)) // 4
        events[-1]['response']['usage'] = {'input_tokens': size, 'output_tokens': 140, 'output_tokens_details': {'reasoning_tokens': 64}, 'total_tokens': size + 140}
        return mev(*events) if body.get('stream') else js(events[-1]['response'])
    def check(self, conv, k, body, h):
        sealed = [i for i in body['input'] if i.get('type') == 'reasoning' and i.get('encrypted_content')]
        if len(sealed) > 1: return js({'error': {'code': 'invalid_prompt', 'message': 'Backend request failed with status 400'}, 'metadata': None}, 400)
        calls = [i['call_id'] for i in body['input'] if i.get('type') == 'function_call']
        results = [i['call_id'] for i in body['input'] if i.get('type') == 'function_call_output']
        if calls != results: return js({'error': {'code': 'invalid_prompt', 'message': 'Invalid Responses API request'}, 'metadata': {'raw': f'No tool output found for function call {calls}.'}}, 400)
