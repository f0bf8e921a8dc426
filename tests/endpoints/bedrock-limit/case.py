"""messages/tools, a router over Anthropic and Bedrock: the first service accepts max_tokens 32,000; from step 2 on a Bedrock model with an output limit of 8,192 responds, and rejects a larger one every time: 400 `The maximum tokens you requested exceeds the model limit of 8192. Try again with a maximum tokens value that is lower than 8192.` With a limit of up to 8,192 it is accepted; the model's turns take 300 tokens. Expected: resolved with the smaller limit, which the arm did not set. (crush#946 on /v1/messages, aichat#813, Roo-Code#248, continue#3342, concordia#73)"""
from mock import *
class C(Case):
    api = 'messages'
    def answer(self, conv, k, body):
        step = sum(m['role'] == 'assistant' for m in body['messages'])
        b = [{'type': 'text', 'text': 'I look at the package.'}, tuse('ls; cat numerals/roman.py')] if step == 0 else [tuse(SOLVE)] if step == 1 else [tuse('/venv/bin/python -m pytest -q')] if step == 2 else [tuse(name='submit', input={})]
        n = len(json.dumps(body)) // 4
        if body.get('stream'): return msg(*b, usage0={'input_tokens': n, 'output_tokens': 1}, usage1={'output_tokens': 300})
        return js({'id': f'msg_{step}', 'type': 'message', 'role': 'assistant', 'model': 'mock', 'content': b, 'stop_reason': 'tool_use', 'stop_sequence': None, 'usage': {'input_tokens': n, 'output_tokens': 300}})
    def check(self, conv, k, body, h):
        ms = body['messages']
        for m, after in zip(ms, [*ms[1:], {'content': []}]):
            if m['role'] != 'assistant': continue
            ids = [b['id'] for b in m['content'] if b['type'] == 'tool_use']
            if ids != [b.get('tool_use_id') for b in after['content'] if b['type'] == 'tool_result']: return merr(400, f'`tool_use` ids were found without `tool_result` blocks immediately after: {ids}.')
        if len(ms) > 1 and body['max_tokens'] > 8192:
            return merr(400, 'The maximum tokens you requested exceeds the model limit of 8192. Try again with a maximum tokens value that is lower than 8192.')
