"""chat/tools, Cloudflare Workers AI: the endpoint sends `content: null` along with its tool calls, but from step 2 on it requires `content` to be a string in every message. Otherwise it returns status 400 in Cloudflare's own format, with an `errors` list instead of `error`: `AiError: Bad input: Error: oneOf at '/' not met, 0 matches: required properties at '/' are 'prompt', Type mismatch of '/messages/2/content', 'null' not in 'string'` (5006). It accepts an empty string. Expected: resolved; a rejection must never be scored as a failure. (TencentDB-Agent-Memory#1313 "every multi-round tool call fails with HTTP 400", zeroclaw#9493, maki#608, sure#467, opencode#30381)"""
from mock import *
class C(Case):
    def answer(self, conv, k, body):
        step = sum(m['role'] == 'assistant' for m in body['messages'])
        call = tcall(args=sh(['ls; cat numerals/roman.py', SOLVE, '/venv/bin/python -m pytest -q | tail -2'][min(step, 2)]), id=f'chatcmpl-tool-{step:08d}') if step < 3 else tcall('submit', {}, id='chatcmpl-tool-end')
        n = len(json.dumps(body)) // 4
        u = {'prompt_tokens': n, 'completion_tokens': 70, 'total_tokens': n + 70}
        if body.get('stream'): return chat({'role': 'assistant', 'content': None, 'tool_calls': [call]}, usage=u)
        call.pop('index')
        return js({'id': f'chatcmpl-{step}', 'object': 'chat.completion', 'model': 'mock', 'choices': [{'index': 0, 'finish_reason': 'tool_calls', 'message': {'role': 'assistant', 'content': None, 'tool_calls': [call]}}], 'usage': u})
    def check(self, conv, k, body, h):
        wrong = []
        for i, m in enumerate(body['messages']):
            if 'content' not in m: wrong.append(f"required properties at '/messages/{i}' are 'role,content'")
            elif not isinstance(m['content'], str): wrong.append(f"Type mismatch of '/messages/{i}/content', '{'null' if m['content'] is None else 'array'}' not in 'string'")
        if wrong: return js({'errors': [{'message': "AiError: Bad input: Error: oneOf at '/' not met, 0 matches: required properties at '/' are 'prompt', " + ', '.join(wrong) + ' (d9e09afe-fe49-4051-bc1d-8901f858ff52)', 'code': 5006}], 'success': False, 'result': {}, 'messages': []}, 400)
